// Commands that carry a slot's recurrent state from row to row: the causal convolution, the windows of strided ones, the
// gated delta update.
#include <cstring>

#include "command.h"
#include "sequences.h"

namespace golem {
namespace {

// Slots a state may have: a table of them is made for each command.
constexpr int64_t kMaxSlots = 1 << 20;

// The groups of the command that this thread replays; other threads only read them.
Sequences &sequences() {
  thread_local Sequences groups;
  return groups;
}

// One slot's rows through channels [begin, end), then the last inputs into its state.
void convolve(const Command &c, const Sequences &groups, const Sequence &sequence, int64_t begin, int64_t end) {
  const int64_t n = c.i(0), past = c.i(1) - 1, count = end - begin;
  const float *x = c.in<float>(1);
  float *state = c.out<float>(3) + sequence.slot * past * n;
  const int64_t *rows = groups.rows(sequence);
  const auto bytes = static_cast<size_t>(count) * sizeof(float);
  if (sequence.fresh)
    for (int64_t j = 0; j < past; j++) memset(state + j * n + begin, 0, bytes);
  // The input at index i of the sequence; before its first row lie the rows of the state.
  const auto input = [&](int64_t i) { return (i >= 0 ? x + rows[i] * n : state + (past + i) * n) + begin; };
  const float *taps[kMaxTaps];
  for (int64_t t = 0; t < sequence.count; t++) {
    for (int64_t k = 0; k <= past; k++) taps[k] = input(t - past + k);
    kernels().convolve(c.out<float>(0) + rows[t] * n + begin, taps, past + 1, c.in<float>(2) + begin, n, count);
  }
  for (int64_t j = 0; j < past; j++) {
    const float *from = input(sequence.count - past + j);
    if (from != state + j * n + begin) memcpy(state + j * n + begin, from, bytes);
  }
}

}  // namespace

int run_conv(const Command &c) {
  const int64_t n = c.i(0), width = c.i(1), slots = c.i(2);
  if (!c.pointers(7)) return GOLEM_E_NULL;
  if (!sizes_fit(n, slots) || slots > kMaxSlots || width < 2 || width > kMaxTaps) return GOLEM_E_SHAPE;
  Sequences &groups = sequences();
  const int error = groups.group(c.in<int32_t>(5), c.in<int32_t>(6), c.rows, c.in<int32_t>(4), slots);
  if (error != GOLEM_OK) return error;
  const double cost = 0.2 * static_cast<double>((width + 4) * c.rows);
  c.share(n, cost, [&](int64_t begin, int64_t end) {
    for (const Sequence &sequence : groups.all()) convolve(c, groups, sequence, begin, end);
  }, 64);
  groups.advance(c.out<int32_t>(4));
  return GOLEM_OK;
}

int run_windows(const Command &c) {
  const int64_t n = c.i(0), steps = c.i(1), taps = c.i(2), stride = c.i(3), slots = c.i(4), repeat = c.i(5);
  if (!c.pointers(6)) return GOLEM_E_NULL;
  if (!sizes_fit(n, steps, taps, stride, slots) || slots > kMaxSlots || steps % stride != 0 || taps <= stride || repeat < 0 ||
      repeat > 1)
    return GOLEM_E_SHAPE;
  Sequences &groups = sequences();
  const int error = groups.group(c.in<int32_t>(4), c.in<int32_t>(5), c.rows, c.in<int32_t>(3), slots);
  if (error != GOLEM_OK) return error;
  const int64_t past = taps - stride, outputs = steps / stride;
  const float *x = c.in<float>(1);
  const auto step_bytes = static_cast<size_t>(n) * sizeof(float);
  for (const Sequence &sequence : groups.all()) {
    float *state = c.out<float>(2) + sequence.slot * past * n;
    const float *first = x + groups.rows(sequence)[0] * steps * n;
    if (!sequence.fresh) continue;
    for (int64_t j = 0; j < past; j++)
      if (repeat != 0) memcpy(state + j * n, first, step_bytes);
      else memset(state + j * n, 0, step_bytes);
  }
  for (const Sequence &sequence : groups.all()) {
    const int64_t *rows = groups.rows(sequence);
    float *state = c.out<float>(2) + sequence.slot * past * n;
    // Step s of the sequence; before its first lie those of the state.
    const auto input = [&](int64_t s) { return s >= 0 ? x + (rows[s / steps] * steps + s % steps) * n : state + (past + s) * n; };
    c.share(sequence.count * outputs, 0.15 * static_cast<double>(taps * n), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; o++) {
        float *out = c.out<float>(0) + (rows[o / outputs] * outputs + o % outputs) * taps * n;
        const int64_t from = o * stride - past, last = from + taps - 1;
        if (from >= 0 && from / steps == last / steps) memcpy(out, input(from), static_cast<size_t>(taps) * step_bytes);
        else
          for (int64_t k = 0; k < taps; k++) memcpy(out + k * n, input(from + k), step_bytes);
      }
    });
    const int64_t total = sequence.count * steps;
    for (int64_t j = 0; j < past; j++) {
      const float *from = input(total - past + j);
      if (from != state + j * n) memcpy(state + j * n, from, step_bytes);
    }
  }
  groups.advance(c.out<int32_t>(3));
  return GOLEM_OK;
}

int run_delta(const Command &c) {
  const int64_t key_heads = c.i(0), value_heads = c.i(1), key_dim = c.i(2), value_dim = c.i(3), slots = c.i(4);
  if (!c.pointers(8)) return GOLEM_E_NULL;
  if (!sizes_fit(key_heads, value_heads, key_dim, value_dim, slots) || value_heads % key_heads != 0 ||
      key_dim > kMaxDeltaKeys || slots > kMaxSlots)
    return GOLEM_E_SHAPE;
  Sequences &groups = sequences();
  const int error = groups.group(c.in<int32_t>(6), c.in<int32_t>(7), c.rows, c.in<int32_t>(5), slots);
  if (error != GOLEM_OK) return error;
  const Delta delta{c.in<float>(1), c.in<float>(2), c.in<float>(3), c.out<float>(0), key_heads,
                    value_heads,    key_dim,        value_dim,      c.f(0)};
  float *const states = c.out<float>(4);
  const int64_t blocks = (value_dim + kDeltaColumns - 1) / kDeltaColumns, state_size = value_heads * key_dim * value_dim;
  const double cost = static_cast<double>(key_dim * kDeltaColumns) * (0.1 * static_cast<double>(c.rows) + 0.2);
  c.share(value_heads * blocks, cost, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; item++)
      for (const Sequence &sequence : groups.all())
        kernels().delta(delta, groups.rows(sequence), sequence.count, states + sequence.slot * state_size, sequence.fresh,
                        item / blocks, item % blocks * kDeltaColumns);
  });
  groups.advance(c.out<int32_t>(5));
  return GOLEM_OK;
}

}  // namespace golem
