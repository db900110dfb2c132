// Queries as they are multiplied, and their scores. A score is summed in one lane, so its bits depend on the query and the
// key alone:
//   f16   over the dimensions in their order, of the query rounded to half with the key
//   f32   over the dimensions in their order, of the query with the key
//   q8_0  over blocks of 32 in their order, sum = sum + (d_q * d_k) * float(whole), with no fused step
#include "activation.h"
#include "attention.h"
#include "codes.h"
#include "golem_kernels.h"
#include "isa_functions.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

constexpr int kVectors = kBlockCells / kWidth;  // of a block's cells
constexpr int kQueries = 4;                     // that are taken together
constexpr int64_t kSpan = 4 * kBlockCells;      // cells whose keys stay in the nearest cache for all queries of a tile

// Blocks whose sums with Q queries fit half of the registers.
constexpr int blocks_together(int Q) {
  const int fit = kRegisters / 2 / (Q * kVectors);
  return fit < 1 ? 1 : fit > 4 ? 4 : fit;
}

struct HalfKeys {
  using Word = uint16_t;
  static vf get(const uint16_t *p) { return load_half(p); }
};
struct FloatKeys {
  using Word = float;
  static vf get(const float *p) { return load(p); }
};

template <class Keys, int Q, int B>
void dots_floats(const uint8_t *blocks, const Cache &cache, const float *queries, vf (*s)[B * kVectors]) {
  const int64_t hd = cache.hd;
  const auto *keys = reinterpret_cast<const typename Keys::Word *>(blocks);
  for (int g = 0; g < Q; g++)
    for (int n = 0; n < B * kVectors; n++) s[g][n] = zero();
  for (int64_t i = 0; i < hd; i++) {
    vf x[B * kVectors];
    for (int n = 0; n < B * kVectors; n++)
      x[n] = Keys::get(keys + (n / kVectors * hd + i) * kBlockCells + n % kVectors * kWidth);
    for (int g = 0; g < Q; g++) {
      const vf y = set1(queries[g * hd + i]);
      for (int n = 0; n < B * kVectors; n++) s[g][n] = fma(y, x[n], s[g][n]);
    }
  }
}

template <int Q, int B>
void dots_q8_0(const uint8_t *blocks, const Cache &cache, const float *queries, vf (*s)[B * kVectors]) {
  const int64_t hd = cache.hd, block_bytes = kBlockCells * row_bytes(kCacheQ8_0, hd);
  for (int g = 0; g < Q; g++)
    for (int n = 0; n < B * kVectors; n++) s[g][n] = zero();
  for (int64_t b = 0; b < hd / 32; b++) {
    vsums sums[Q][B * kVectors];
    const uint8_t *query[Q];
    for (int g = 0; g < Q; g++) {
      query[g] = reinterpret_cast<const uint8_t *>(queries + g * hd);
      const vsums start = dot_start(int_at(query[g], act32_s_at(hd, b)));
      for (int n = 0; n < B * kVectors; n++) sums[g][n] = start;
    }
    for (int64_t i = 8 * b; i < 8 * b + 8; i++) {
      vcodes x[B * kVectors];
      for (int n = 0; n < B * kVectors; n++)
        x[n] = load_codes(codes_at(blocks + n / kVectors * block_bytes, (i * kBlockCells + n % kVectors * kWidth) * 4));
      for (int g = 0; g < Q; g++) {
        const int32_t four = int_at(query[g], 4 * i);
        for (int n = 0; n < B * kVectors; n++) sums[g][n] = dot_four(sums[g][n], x[n], four);
      }
    }
    for (int n = 0; n < B * kVectors; n++) {
      const uint8_t *scales = blocks + n / kVectors * block_bytes + kBlockCells * hd;
      const vf d = load_half(reinterpret_cast<const uint16_t *>(scales) + b * kBlockCells + n % kVectors * kWidth);
      for (int g = 0; g < Q; g++) s[g][n] = s[g][n] + set1(float_at(query[g], act32_d_at(hd, b))) * d * whole(sums[g][n]);
    }
  }
}

// The scores of positions p .. p + kWidth - 1, of which those from `begin` to `end` are written.
void put(float *row, vf s, int64_t p, int64_t begin, int64_t end) {
  if (begin <= p && p + kWidth <= end) {
    store(row + p, s);
    return;
  }
  float lanes[kWidth];
  store(lanes, s);
  for (int64_t i = begin < p ? p : begin; i < p + kWidth && i < end; i++) row[i] = lanes[i - p];
}

// Scores of Q queries, the first of which is `query`, with B blocks; the first of their cells is position p.
template <int Q, int B>
void score_blocks(const Attention &a, const Tile &t, int64_t query, const uint8_t *blocks, int64_t p, int64_t begin, int64_t end) {
  vf s[Q][B * kVectors];
  const float *queries = t.queries + query * a.cache.hd;
  if (a.cache.type == kCacheF16) dots_floats<HalfKeys, Q, B>(blocks, a.cache, queries, s);
  else if (a.cache.type == kCacheF32) dots_floats<FloatKeys, Q, B>(blocks, a.cache, queries, s);
  else dots_q8_0<Q, B>(blocks, a.cache, queries, s);
  for (int g = 0; g < Q; g++) {
    const int64_t pos = t.pos + (query + g) / group_of(a), first = first_of(a, pos);
    float *row = t.weights + (query + g) * t.stride - first;
    for (int n = 0; n < B * kVectors; n++)
      put(row, s[g][n], p + n * kWidth, begin < first ? first : begin, end <= pos ? end : pos + 1);
  }
}

template <int Q>
void score_span(const Attention &a, const Tile &t, int64_t query, const uint8_t *blocks, int64_t count, int64_t p, int64_t begin,
                int64_t end) {
  constexpr int B = blocks_together(Q);
  const int64_t bytes = kBlockCells * row_bytes(a.cache.type, a.cache.hd);
  int64_t b = 0;
  for (; b + B <= count; b += B) score_blocks<Q, B>(a, t, query, blocks + b * bytes, p + b * kBlockCells, begin, end);
  for (; b < count; b++) score_blocks<Q, 1>(a, t, query, blocks + b * bytes, p + b * kBlockCells, begin, end);
}

}  // namespace

void attend_queries(const Attention &a, const Tile &t) {
  const int64_t hd = a.cache.hd, group = group_of(a);
  for (int64_t j = 0; j < t.rows * group; j++) {
    const float *q = a.q + ((t.row + j / group) * a.heads + t.kv_head * group + j % group) * hd;
    float *out = t.queries + j * hd;
    if (a.cache.type == kCacheQ8_0) {
      quantize(GOLEM_ACT_Q8_0, q, hd, reinterpret_cast<uint8_t *>(out));
      continue;
    }
    for (int64_t i = 0; i < hd; i += kWidth) {
      const vf x = load_part(q + i, hd - i);
      store_part(out + i, a.cache.type == kCacheF32 ? x : round_to_half(x), hd - i);
    }
  }
}

void attend_scores(const Attention &a, const Tile &t, int64_t begin, int64_t end) {
  const int64_t queries = t.rows * group_of(a), ring = a.cache.ring;
  const uint8_t *keys = keys_of(a.cache, t.slot, t.kv_head);
  for (int64_t p = begin; p < end;) {
    // cells of one stretch of the ring, up to the end of a span
    const int64_t cell = p % ring, before = cell % kBlockCells, room = ring - cell;
    int64_t count = kSpan - cell % kSpan;
    if (count > room) count = room;
    if (count > end - p) count = end - p;
    const uint8_t *blocks = keys + (cell - before) * row_bytes(a.cache.type, a.cache.hd);
    const int64_t n = key_blocks(before + count), stop = p + count;
    for (int64_t j = 0; j < queries;) {
      const int64_t together = queries - j < kQueries ? queries - j : kQueries;
      switch (together) {
        case 1: score_span<1>(a, t, j, blocks, n, p - before, p, stop); break;
        case 2: score_span<2>(a, t, j, blocks, n, p - before, p, stop); break;
        case 3: score_span<3>(a, t, j, blocks, n, p - before, p, stop); break;
        default: score_span<4>(a, t, j, blocks, n, p - before, p, stop);
      }
      j += together;
    }
    p = stop;
  }
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
