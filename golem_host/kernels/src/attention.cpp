// Attention of one row over its slot's cache. Keys are taken in blocks of 64 at absolute positions; each
// block gives its own maximum, sum and weighted values, and blocks are merged in ascending order. So the
// bits depend on the row's query, position and cache alone.
#include <cmath>

#include "isa_functions.h"
#include "simd.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

constexpr int64_t kBlock = 64;

// Heads that are taken together, so that a key or value is converted to float once: what the registers hold.
constexpr int kHeads = kWidth == 16 ? 4 : 2;

// Consecutive cells of a ring.
struct Cells {
  int64_t first, count;
};

// What one head has gathered: values are weighted by exp(score - max).
struct Gathered {
  float max, sum;
  float values[kMaxHeadDim];
};

// G heads of one row with one kv head.
template <int G>
struct Heads {
  const Attention &attention;
  const float *q;         // [G, hd]
  const uint16_t *k, *v;  // the kv head's rings: [ring, hd], [ring, vd]

  // score[g][0..N): queries times N keys. One vector of partial sums per pair: the same order for any N and G.
  template <int N>
  void dots(const uint16_t *keys, float (*score)[kBlock], int64_t at) const {
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
        const vf y = whole ? load(q + g * hd + i) : load_n(q + g * hd + i, rest);
        for (int j = 0; j < N; j++) s[g][j] = fma(y, x[j], s[g][j]);
      }
    }
    for (int g = 0; g < G; g++) {
      if constexpr (N == 4) sum_4(s[g], score[g] + at);
      else score[g][at] = sum(s[g][0]);
    }
  }

  void scores(Cells cells, float (*score)[kBlock], int64_t at) const {
    const uint16_t *keys = k + cells.first * attention.cache.hd;
    int64_t j = 0;
    for (; j + 4 <= cells.count; j += 4) dots<4>(keys + j * attention.cache.hd, score, at + j);
    for (; j < cells.count; j++) dots<1>(keys + j * attention.cache.hd, score, at + j);
  }

  // N vectors of every head's values from dimension i on: += weight * value, in the order of the keys.
  template <int N>
  void add_vectors(Cells cells, float (*weight)[kBlock], int64_t at, int64_t i, Gathered *out) const {
    const int64_t vd = attention.cache.vd;
    const uint16_t *value = v + cells.first * vd + i;
    vf s[G][N];
    for (int g = 0; g < G; g++)
      for (int n = 0; n < N; n++) s[g][n] = load(out[g].values + i + n * kWidth);
    for (int64_t j = 0; j < cells.count; j++, value += vd) {
      for (int n = 0; n < N; n++) {
        const vf x = load_half(value + n * kWidth);
        for (int g = 0; g < G; g++) s[g][n] = fma(set1(weight[g][at + j]), x, s[g][n]);
      }
    }
    for (int g = 0; g < G; g++)
      for (int n = 0; n < N; n++) store(out[g].values + i + n * kWidth, s[g][n]);
  }

  void add_values(Cells cells, float (*weight)[kBlock], int64_t at, Gathered *out) const {
    const int64_t vd = attention.cache.vd;
    int64_t i = 0;
    for (; i + 4 * kWidth <= vd; i += 4 * kWidth) add_vectors<4>(cells, weight, at, i, out);
    for (; i + kWidth <= vd; i += kWidth) add_vectors<1>(cells, weight, at, i, out);
    for (; i < vd; i++)
      for (int g = 0; g < G; g++)
        for (int64_t j = 0; j < cells.count; j++)
          out[g].values[i] += weight[g][at + j] * half_to_float(v[(cells.first + j) * vd + i]);
  }

  // Scores of n keys to weights.
  void to_weights(float *weight, int64_t n, Gathered &out) const {
    const vf by = set1(attention.scale), cap = set1(attention.softcap);
    vf m = set1(-INFINITY), s = zero();
    for (int64_t i = 0; i < n; i += kWidth) {
      vf x = load_part(weight + i, n - i) * by;
      if (attention.softcap > 0) x = cap * tanh(x / cap);
      store_part(weight + i, x, n - i);  // lanes past n stay -infinity
      m = larger(m, load(weight + i));
    }
    out.max = largest(m);
    for (int64_t i = 0; i < n; i += kWidth) {
      const vf e = exp(load(weight + i) - set1(out.max));
      store(weight + i, e);
      s = s + e;
    }
    out.sum = sum(s);
  }

  // One block: the keys of `cells[0]`, then of `cells[1]`.
  void gather(const Cells cells[2], Gathered *out) const {
    const int64_t n = cells[0].count + cells[1].count;
    float weight[G][kBlock];
    for (int g = 0; g < G; g++)
      for (int64_t i = n; i < kBlock; i++) weight[g][i] = -INFINITY;
    scores(cells[0], weight, 0);
    scores(cells[1], weight, cells[0].count);
    for (int g = 0; g < G; g++) {
      to_weights(weight[g], n, out[g]);
      for (int64_t i = 0; i < attention.cache.vd; i++) out[g].values[i] = 0;
    }
    add_values(cells[0], weight, 0, out);
    add_values(cells[1], weight, cells[0].count, out);
  }

  // Positions first..pos, to out [G, vd].
  void run(int64_t first, int64_t pos, float *out) const {
    const Cache &cache = attention.cache;
    Gathered all[G], block[G];
    for (int64_t at = first; at <= pos;) {
      const int64_t block_end = (at / kBlock + 1) * kBlock, end = block_end < pos + 1 ? block_end : pos + 1;
      const int64_t cell = at % cache.ring, whole = end - at, room = cache.ring - cell;
      const Cells cells[2] = {{cell, whole < room ? whole : room}, {0, whole < room ? 0 : whole - room}};
      gather(cells, at == first ? all : block);
      for (int g = 0; g < G && at != first; g++) merge(all[g], block[g], cache.vd);
      at = end;
    }
    for (int g = 0; g < G; g++)
      for (int64_t i = 0; i < cache.vd; i++) out[g * cache.vd + i] = all[g].values[i] / all[g].sum;
  }

  static float exp_of(float x) {
    float y[kWidth];
    store(y, exp(set1(x)));
    return y[0];
  }

  static void merge(Gathered &all, const Gathered &block, int64_t vd) {
    const float max = all.max > block.max ? all.max : block.max;
    const float a = exp_of(all.max - max), b = exp_of(block.max - max);
    all.max = max;
    all.sum = all.sum * a + block.sum * b;
    for (int64_t i = 0; i < vd; i++) all.values[i] = all.values[i] * a + block.values[i] * b;
  }
};

}  // namespace

void attend(const Attention &attention, int64_t row, int64_t kv_head, int64_t slot, int64_t pos) {
  const Cache &cache = attention.cache;
  const int64_t group = attention.heads / cache.kv_heads, ring_at = (slot * cache.kv_heads + kv_head) * cache.ring;
  const int64_t first = attention.window > 0 && pos >= attention.window ? pos - attention.window + 1 : 0;
  for (int64_t done = 0; done < group;) {
    const int64_t h = row * attention.heads + kv_head * group + done, rest = group - done;
    const float *q = attention.q + h * cache.hd;
    float *out = attention.out + h * cache.vd;
    const uint16_t *k = cache.k + ring_at * cache.hd, *v = cache.v + ring_at * cache.vd;
    const int together = static_cast<int>(rest < kHeads ? rest : kHeads);
    if (together == 1) Heads<1>{attention, q, k, v}.run(first, pos, out);
    if (together == 2) Heads<2>{attention, q, k, v}.run(first, pos, out);
#if defined(GOLEM_ISA_AVX512)
    if (together == 3) Heads<3>{attention, q, k, v}.run(first, pos, out);
    if (together == 4) Heads<4>{attention, q, k, v}.run(first, pos, out);
#endif
    done += together;
  }
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
