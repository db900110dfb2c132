// Attention over slot caches: how the caches lie in memory, and the pieces of work it is cut into.
//
// Keys lie in blocks of 16 cells, so that a vector holds one dimension of neighbouring cells and a score is summed in one
// lane; values lie cell by cell.
//   f16   key block: half [hd, 16]                                        value: half [vd]
//   f32   the same in float
//   q8_0  key block: int8 [hd / 4, 16, 4], then half scale [hd / 32, 16]  value: int8 [vd], then half scale [vd / 32]
//
// No function here has external linkage: see simd.h.
#pragma once
#include <cstdint>

namespace golem {

constexpr int64_t kCacheF16 = 0, kCacheF32 = 1, kCacheQ8_0 = 8;
constexpr int64_t kBlockCells = 16;
constexpr int64_t kMaxHeadDim = 1024;

struct Cache {
  const uint8_t *k, *v;  // [slots, kv_heads] of key_blocks(ring) blocks, and of ring values
  int64_t type, kv_heads, ring, hd, vd;
};

static inline int64_t key_blocks(int64_t ring) { return (ring + kBlockCells - 1) / kBlockCells; }
static inline int64_t row_bytes(int64_t type, int64_t n) { return type == kCacheF16 ? 2 * n : type == kCacheF32 ? 4 * n : n + n / 16; }

// The first key block and the first value of a slot's kv head.
static inline const uint8_t *keys_of(const Cache &c, int64_t slot, int64_t kv_head) {
  return c.k + (slot * c.kv_heads + kv_head) * key_blocks(c.ring) * kBlockCells * row_bytes(c.type, c.hd);
}
static inline const uint8_t *values_of(const Cache &c, int64_t slot, int64_t kv_head) {
  return c.v + (slot * c.kv_heads + kv_head) * c.ring * row_bytes(c.type, c.vd);
}

struct Attention {
  Cache cache;
  const float *q;  // [rows, heads, hd]
  float *out;      // [rows, heads, vd]
  int64_t heads, window, block;  // block: rows whose window ends with the last of them
  float scale, softcap;
};

// Rows of one slot at consecutive positions with the heads that share one kv head: queries of the same keys.
struct Tile {
  int64_t row, rows;  // the first row of the pass, and how many
  int64_t slot, pos;  // pos: of the first row
  int64_t kv_head;
  float *queries;  // [rows * group, hd]: f16: rounded to half; q8_0: an activation row of Q8_0 in each
  float *weights;  // [rows * group, stride]: the scores, then the weights of a row's positions, from its first on
  int64_t stride;
};

// Heads of one kv head.
static inline int64_t group_of(const Attention &a) { return a.heads / a.cache.kv_heads; }
// The first position that a row at `pos` attends.
static inline int64_t first_of(const Attention &a, int64_t pos) {
  const int64_t last = pos + a.block - 1 - pos % a.block;
  return a.window > 0 && last >= a.window ? last - a.window + 1 : 0;
}
// Where a tile's positions end.
static inline int64_t end_of(const Tile &t) { return t.pos + t.rows; }
static inline float *out_of(const Attention &a, const Tile &t, int64_t query) {
  const int64_t group = group_of(a);
  return a.out + ((t.row + query / group) * a.heads + t.kv_head * group + query % group) * a.cache.vd;
}
// Floats that the weights of n keys take: whole vectors.
static inline int64_t attention_stride(int64_t n) { return (n + 15) / 16 * 16; }

}  // namespace golem
