// Attention of one row over its slot's cache, in ggml's precision: queries and weights are rounded to half, scores,
// sums and values are float32. Keys are taken in the order of their positions, so the bits depend on the row's query,
// position and cache alone.
#include <cmath>

#include "isa_functions.h"
#include "simd.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

// Heads that are taken together, so that a key or value is converted to float once: what the registers hold.
constexpr int kHeads = kRegisters == 32 ? 4 : 2;

// Consecutive cells of a ring.
struct Cells {
  int64_t first, count;
};

// G heads of one row with one kv head.
template <int G>
struct Heads {
  const Attention &attention;
  const uint16_t *k, *v;  // the kv head's rings: [ring, hd], [ring, vd]
  float *weight;          // [G, stride]: first the scores, then the weights of the keys
  int64_t stride;
  float q[G][kMaxHeadDim];  // rounded to half

  // Scores of N keys, the first of which is key `at`. One vector of partial sums per pair: the same order for any N and G.
  template <int N>
  void dots(const uint16_t *keys, int64_t at) {
    const int64_t hd = attention.cache.hd;
    vf s[G][N];
    for (int g = 0; g < G; g++)
      for (int j = 0; j < N; j++) s[g][j] = zero();
    for (int64_t i = 0; i < hd; i += kWidth) {
      const bool whole = hd - i >= kWidth;
      const int rest = static_cast<int>(hd - i);
      vf x[N];
      for (int j = 0; j < N; j++) x[j] = whole ? load_half(keys + j * hd + i) : load_half_n(keys + j * hd + i, rest);
      for (int g = 0; g < G; g++) {
        const vf y = whole ? load(q[g] + i) : load_n(q[g] + i, rest);
        for (int j = 0; j < N; j++) s[g][j] = fma(y, x[j], s[g][j]);
      }
    }
    for (int g = 0; g < G; g++) {
      float *score = weight + g * stride + at;
      if constexpr (N == 4) sum_4(s[g], score);
      else *score = sum(s[g][0]);
    }
  }

  void scores(Cells cells, int64_t at) {
    const int64_t hd = attention.cache.hd;
    const uint16_t *keys = k + cells.first * hd;
    int64_t j = 0;
    for (; j + 4 <= cells.count; j += 4) dots<4>(keys + j * hd, at + j);
    for (; j < cells.count; j++) dots<1>(keys + j * hd, at + j);
  }

  // N vectors of every head's values from dimension i on: += weight * value, in the order of the keys.
  template <int N>
  void add_vectors(Cells cells, int64_t at, int64_t i, float *out) const {
    const int64_t vd = attention.cache.vd;
    const uint16_t *value = v + cells.first * vd + i;
    vf s[G][N];
    for (int g = 0; g < G; g++)
      for (int n = 0; n < N; n++) s[g][n] = load(out + g * vd + i + n * kWidth);
    for (int64_t j = 0; j < cells.count; j++, value += vd) {
      for (int n = 0; n < N; n++) {
        const vf x = load_half(value + n * kWidth);
        for (int g = 0; g < G; g++) s[g][n] = fma(set1(weight[g * stride + at + j]), x, s[g][n]);
      }
    }
    for (int g = 0; g < G; g++)
      for (int n = 0; n < N; n++) store(out + g * vd + i + n * kWidth, s[g][n]);
  }

  void add_values(Cells cells, int64_t at, float *out) const {
    const int64_t vd = attention.cache.vd;
    int64_t i = 0;
    for (; i + 4 * kWidth <= vd; i += 4 * kWidth) add_vectors<4>(cells, at, i, out);
    for (; i + kWidth <= vd; i += kWidth) add_vectors<1>(cells, at, i, out);
    for (; i < vd; i++)
      for (int g = 0; g < G; g++)
        for (int64_t j = 0; j < cells.count; j++)
          out[g * vd + i] += weight[g * stride + at + j] * half_to_float(v[(cells.first + j) * vd + i]);
  }

  // Scores of n keys to weights: softmax, rounded to half.
  void to_weights(float *w, int64_t n) const {
    const vf by = set1(attention.scale), cap = set1(attention.softcap);
    vf m = set1(-INFINITY);
    for (int64_t i = 0; i < n; i += kWidth) {
      vf x = load_part(w + i, n - i) * by;
      if (attention.softcap > 0) x = cap * tanh(x / cap);
      store_part(w + i, x, n - i);  // lanes past n stay -infinity
      m = larger(m, load(w + i));
    }
    const vf max = set1(largest(m));
    double total = 0;
    for (int64_t i = 0; i < n; i += kWidth) {
      const vf e = exp(load(w + i) - max);
      store(w + i, e);
      total += sum(e);
    }
    const vf inverse = set1(static_cast<float>(1.0 / total));
    for (int64_t i = 0; i < n; i += kWidth) store(w + i, round_to_half(load(w + i) * inverse));
  }

  // Positions first..pos, to out [G, vd].
  void run(const float *queries, int64_t first, int64_t pos, float *out) {
    const Cache &cache = attention.cache;
    for (int g = 0; g < G; g++)
      for (int64_t i = 0; i < cache.hd; i += kWidth)
        store_part(q[g] + i, round_to_half(load_part(queries + g * cache.hd + i, cache.hd - i)), cache.hd - i);
    const int64_t n = pos - first + 1, cell = first % cache.ring, room = cache.ring - cell;
    const Cells before = {cell, n < room ? n : room}, after = {0, n < room ? 0 : n - room};
    for (int g = 0; g < G; g++)
      for (int64_t i = n; i < stride; i++) weight[g * stride + i] = -INFINITY;
    scores(before, 0);
    scores(after, before.count);
    for (int g = 0; g < G; g++) to_weights(weight + g * stride, n);
    for (int64_t i = 0; i < G * cache.vd; i++) out[i] = 0;
    add_values(before, 0, out);
    add_values(after, before.count, out);
  }
};

}  // namespace

void attend(const Attention &attention, int64_t row, int64_t kv_head, int64_t slot, int64_t pos, float *scratch) {
  const Cache &cache = attention.cache;
  const int64_t group = attention.heads / cache.kv_heads, ring_at = (slot * cache.kv_heads + kv_head) * cache.ring;
  const int64_t first = attention.window > 0 && pos >= attention.window ? pos - attention.window + 1 : 0;
  const int64_t stride = attention_stride(pos - first + 1);
  for (int64_t done = 0; done < group;) {
    const int64_t h = row * attention.heads + kv_head * group + done, rest = group - done;
    const float *q = attention.q + h * cache.hd;
    float *out = attention.out + h * cache.vd;
    const uint16_t *k = cache.k + ring_at * cache.hd, *v = cache.v + ring_at * cache.vd;
    const int together = static_cast<int>(rest < kHeads ? rest : kHeads);
    if (together == 1) Heads<1>{attention, k, v, scratch, stride, {}}.run(q, first, pos, out);
    if (together == 2) Heads<2>{attention, k, v, scratch, stride, {}}.run(q, first, pos, out);
    if constexpr (kHeads == 4) {
      if (together == 3) Heads<3>{attention, k, v, scratch, stride, {}}.run(q, first, pos, out);
      if (together == 4) Heads<4>{attention, k, v, scratch, stride, {}}.run(q, first, pos, out);
    }
    done += together;
  }
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
