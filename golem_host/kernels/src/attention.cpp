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

// Consecutive cells of a ring.
struct Cells {
  int64_t first, count;
};

// Scores of N keys that lie hd apart. One sum of products per key: the same order for any N.
template <int N>
void dots(const float *q, const uint16_t *k, int64_t hd, float *score) {
  vf s[N];
  for (int j = 0; j < N; j++) s[j] = zero();
  int64_t i = 0;
  for (; i + kWidth <= hd; i += kWidth) {
    const vf x = load(q + i);
    for (int j = 0; j < N; j++) s[j] = fma(x, load_half(k + j * hd + i), s[j]);
  }
  if (i < hd) {
    const int rest = static_cast<int>(hd - i);
    const vf x = load_n(q + i, rest);
    for (int j = 0; j < N; j++) s[j] = fma(x, load_half_n(k + j * hd + i, rest), s[j]);
  }
  for (int j = 0; j < N; j++) score[j] = sum(s[j]);
}

void scores(const float *q, const uint16_t *k, int64_t hd, int64_t keys, float *score) {
  int64_t j = 0;
  for (; j + 4 <= keys; j += 4) dots<4>(q, k + j * hd, hd, score + j);
  for (; j < keys; j++) dots<1>(q, k + j * hd, hd, score + j);
}

// sum[0..N*kWidth) += weight[j] * v[j], in the order of the keys.
template <int N>
void add_values(const float *weight, const uint16_t *v, int64_t vd, int64_t keys, float *out) {
  vf s[N];
  for (int i = 0; i < N; i++) s[i] = load(out + i * kWidth);
  for (int64_t j = 0; j < keys; j++) {
    const vf w = set1(weight[j]);
    for (int i = 0; i < N; i++) s[i] = fma(w, load_half(v + j * vd + i * kWidth), s[i]);
  }
  for (int i = 0; i < N; i++) store(out + i * kWidth, s[i]);
}

void weighted_values(const float *weight, const uint16_t *v, int64_t vd, int64_t keys, float *out) {
  int64_t i = 0;
  for (; i + 4 * kWidth <= vd; i += 4 * kWidth) add_values<4>(weight, v + i, vd, keys, out + i);
  for (; i + kWidth <= vd; i += kWidth) add_values<1>(weight, v + i, vd, keys, out + i);
  if (i == vd) return;
  const int rest = static_cast<int>(vd - i);
  vf s = load_n(out + i, rest);
  for (int64_t j = 0; j < keys; j++) s = fma(set1(weight[j]), load_half_n(v + j * vd + i, rest), s);
  store_n(out + i, s, rest);
}

float exp_of(float x) {
  float y[kWidth];
  store(y, exp(set1(x)));
  return y[0];
}

// What one head has gathered: values are weighted by exp(score - max).
struct Gathered {
  float max, sum;
  float values[kMaxHeadDim];
};

struct Head {
  const float *q;
  const uint16_t *k, *v;  // the head's ring: [ring, hd], [ring, vd]
  const Attention *attention;

  // One block: the keys of `cells[0]`, then of `cells[1]`.
  void gather(const Cells cells[2], Gathered &out) const {
    const Cache &cache = attention->cache;
    const int64_t n = cells[0].count + cells[1].count;
    float weight[kBlock];
    for (int64_t i = n; i < kBlock; i++) weight[i] = -INFINITY;
    scores(q, k + cells[0].first * cache.hd, cache.hd, cells[0].count, weight);
    scores(q, k + cells[1].first * cache.hd, cache.hd, cells[1].count, weight + cells[0].count);
    to_weights(weight, n, out);
    for (int64_t i = 0; i < cache.vd; i++) out.values[i] = 0;
    weighted_values(weight, v + cells[0].first * cache.vd, cache.vd, cells[0].count, out.values);
    weighted_values(weight + cells[0].count, v + cells[1].first * cache.vd, cache.vd, cells[1].count, out.values);
  }

  void to_weights(float *weight, int64_t n, Gathered &out) const {
    const vf by = set1(attention->scale), cap = set1(attention->softcap);
    vf m = set1(-INFINITY), s = zero();
    for (int64_t i = 0; i < n; i += kWidth) {
      vf x = load(weight + i) * by;
      if (attention->softcap > 0) {
        x = cap * tanh(x / cap);
        if (n - i < kWidth) {  // the cap would lift the empty lanes
          store(weight + i, set1(-INFINITY));
          store_part(weight + i, x, n - i);
          x = load(weight + i);
        }
      }
      store(weight + i, x);
      m = larger(m, x);
    }
    out.max = largest(m);
    for (int64_t i = 0; i < n; i += kWidth) {
      const vf e = exp(load(weight + i) - set1(out.max));
      store(weight + i, e);
      s = s + e;
    }
    out.sum = sum(s);
  }
};

void merge(Gathered &all, const Gathered &block, int64_t vd) {
  const float max = all.max > block.max ? all.max : block.max;
  const float a = exp_of(all.max - max), b = exp_of(block.max - max);
  all.max = max;
  all.sum = all.sum * a + block.sum * b;
  for (int64_t i = 0; i < vd; i++) all.values[i] = all.values[i] * a + block.values[i] * b;
}

}  // namespace

void attend(const Attention &attention, int64_t row, int64_t kv_head, int64_t slot, int64_t pos) {
  const Cache &cache = attention.cache;
  const int64_t group = attention.heads / cache.kv_heads, ring_at = (slot * cache.kv_heads + kv_head) * cache.ring;
  const int64_t first = attention.window > 0 && pos >= attention.window ? pos - attention.window + 1 : 0;
  for (int64_t h = kv_head * group; h < (kv_head + 1) * group; h++) {
    const Head head{attention.q + (row * attention.heads + h) * cache.hd, cache.k + ring_at * cache.hd,
                    cache.v + ring_at * cache.vd, &attention};
    Gathered all, block;
    for (int64_t at = first; at <= pos;) {
      const int64_t block_end = (at / kBlock + 1) * kBlock, end = block_end < pos + 1 ? block_end : pos + 1;
      const int64_t cell = at % cache.ring, whole = end - at, room = cache.ring - cell;
      const Cells cells[2] = {{cell, whole < room ? whole : room}, {0, whole < room ? 0 : whole - room}};
      head.gather(cells, at == first ? all : block);
      if (at != first) merge(all, block, cache.vd);
      at = end;
    }
    float *out = attention.out + (row * attention.heads + h) * cache.vd;
    for (int64_t i = 0; i < cache.vd; i++) out[i] = all.values[i] / all.sum;
  }
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
