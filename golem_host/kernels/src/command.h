// What the code of a command sees: its slots, its live rows, the pool.
#pragma once
#include <cstdint>

#include "golem_kernels.h"
#include "kernels.h"
#include "pool.h"

namespace golem {

struct Command {
  const golem_cmd &cmd;
  const int64_t *live;
  int64_t rows;  // live rows, > 0
  Pool &pool;

  template <class T>
  T *out(int slot) const {
    return static_cast<T *>(cmd.p[slot]);
  }
  template <class T>
  const T *in(int slot) const {
    return static_cast<const T *>(cmd.p[slot]);
  }
  int64_t i(int slot) const { return cmd.i[slot]; }
  float f(int slot) const { return static_cast<float>(cmd.f[slot]); }

  // Whether the first `count` pointer slots are set.
  bool pointers(int count) const {
    for (int slot = 0; slot < count; slot++)
      if (cmd.p[slot] == nullptr) return false;
    return true;
  }

  // How many of `total` nanoseconds of work to hand over at a time: eight chunks a thread, but none shorter than what
  // handing it over costs or longer than others should wait for. 0: the caller should do it all.
  static double chunk_ns(double total, int threads) {
    constexpr double kWorthWaking = 8e3, kShortestChunk = 2e3, kLongestChunk = 20e3;
    if (threads == 1 || total < kWorthWaking) return 0;
    const double chunk = total / (8.0 * threads);
    return chunk < kShortestChunk ? kShortestChunk : chunk > kLongestChunk ? kLongestChunk : chunk;
  }

  // Calls fn(begin, end) over 0..items, cut in chunks. `cost` is about how many nanoseconds one item takes on one
  // thread: what is over soon stays on the caller, which wakes nobody. Chunks begin at multiples of `align`.
  template <class Fn>
  void share(int64_t items, double cost, Fn fn, int64_t align = 1) const {
    const double total = cost * static_cast<double>(items), chunk = chunk_ns(total, pool.threads());
    if (chunk == 0) {
      fn(int64_t{0}, items);
      return;
    }
    const int64_t chunks = static_cast<int64_t>(total / chunk);
    int64_t step = (items + chunks - 1) / chunks;
    step = (step + align - 1) / align * align;
    pool.run((items + step - 1) / step, [&](int64_t chunk) {
      const int64_t begin = chunk * step;
      fn(begin, begin + step < items ? begin + step : items);
    });
  }
};

// Whether every size is positive and below what keeps byte counts within int64.
template <class... Sizes>
bool sizes_fit(Sizes... sizes) {
  return ((sizes > 0 && sizes < (int64_t{1} << 40)) && ...);
}

// The commands; each returns a golem_error and has written nothing unless it returns GOLEM_OK.
int run_rows(const Command &c);
int run_act(const Command &c);
int run_rms_norm(const Command &c);
int run_rope_angles(const Command &c);
int run_rope(const Command &c);
int run_block_maxima(const Command &c);
int run_arg_largest(const Command &c);
int run_store(const Command &c);
int run_attn(const Command &c);
int run_gate(const Command &c);
int run_add(const Command &c);
int run_mul(const Command &c);
int run_scale(const Command &c);
int run_softcap(const Command &c);
int run_temperature(const Command &c);
int run_select(const Command &c);
int run_copy(const Command &c);
int run_route(const Command &c);
int run_experts(const Command &c);
int run_mix(const Command &c);
int run_conv(const Command &c);
int run_delta(const Command &c);
int run_l2_norm(const Command &c);
int run_decay(const Command &c);
int run_hadamard(const Command &c);
int run_windows(const Command &c);
int run_lay(const Command &c);
int run_layer_norm(const Command &c);
int run_text_attn(const Command &c);
int run_mean(const Command &c);
int run_full_attn(const Command &c);
int run_conv2d(const Command &c);

// About how many nanoseconds one core takes for one weight row of `bytes` times `columns` activation rows of k values.
double product_ns(int64_t bytes, int64_t k, int64_t columns);

}  // namespace golem
