// Attention: the rows of a pass cut into tiles, and the tiles or their steps shared between threads.
#include <atomic>

#include "scratch.h"
#include "slots.h"

namespace golem {
namespace {

// Queries that read keys and values together; a row's queries of one kv head are never parted.
constexpr int64_t kTileQueries = 16;
// Below this many nanoseconds three meetings of all threads cost more than is won by sharing the steps of a tile.
constexpr double kWorthSplitting = 20e3;
// About how long one core takes for a key with one dimension of one query, and for its weight.
constexpr double kNsPerDimension = 0.025, kNsPerWeight = 1.0;
constexpr int64_t kScoreRange = 256;  // positions
constexpr int64_t kValueRange = 64;   // dimensions

// Positions that a tile attends.
int64_t reach(const Attention &a, const Tile &t) { return end_of(t) - first_of(a, t.pos); }

// Floats that a tile needs.
int64_t floats_of(const Attention &a, const Tile &t) {
  return t.rows * group_of(a) * (a.cache.hd + attention_stride(reach(a, t)));
}

void place(const Attention &a, Tile &t, float *memory) {
  t.queries = memory;
  t.stride = attention_stride(reach(a, t));
  t.weights = memory + t.rows * group_of(a) * a.cache.hd;
}

double cost_of(const Attention &a, const Tile &t) {
  const double per_key = kNsPerDimension * static_cast<double>(a.cache.hd + a.cache.vd) + kNsPerWeight;
  return static_cast<double>(t.rows * group_of(a) * reach(a, t)) * per_key;
}

// Rows that follow each other in one slot, as many as make kTileQueries queries: the tiles of one kv head. How many.
int64_t cut(const Attention &a, const int32_t *slot, const int32_t *position, int64_t rows, Tile *tiles) {
  const int64_t most = kTileQueries > group_of(a) ? kTileQueries / group_of(a) : 1;
  int64_t count = 0;
  for (int64_t r = 0; r < rows; r++) {
    Tile *last = count > 0 ? &tiles[count - 1] : nullptr;
    if (last != nullptr && last->rows < most && last->slot == slot[r] && end_of(*last) == position[r]) last->rows++;
    else tiles[count++] = Tile{r, 1, slot[r], position[r], 0, nullptr, nullptr, 0};
  }
  return count;
}

void attend(const Attention &a, const Tile &t) {
  kernels().attend_queries(a, t);
  kernels().attend_scores(a, t, first_of(a, t.pos), end_of(t));
  for (int64_t j = 0; j < t.rows * group_of(a); j++) kernels().attend_weights(a, t, j);
  kernels().attend_values(a, t, 0, a.cache.vd);
}

// Each tile by one thread.
int attend_whole(const Command &c, const Attention &a, const Tile *tiles, int64_t count, double cost) {
  const int64_t kv_heads = a.cache.kv_heads, items = count * kv_heads;
  int64_t floats = 0;
  for (int64_t i = 0; i < count; i++) floats = floats_of(a, tiles[i]) > floats ? floats_of(a, tiles[i]) : floats;
  std::atomic<bool> short_of_memory{false};
  c.share(items, cost / static_cast<double>(items), [&](int64_t begin, int64_t end) {
    thread_local Scratch<float> scratch;
    float *memory = scratch.of(floats);
    if (memory == nullptr) {
      short_of_memory = true;
      return;
    }
    for (int64_t item = begin; item < end; item++) {
      Tile t = tiles[item / kv_heads];
      t.kv_head = item % kv_heads;
      place(a, t, memory);
      attend(a, t);
    }
  });
  return short_of_memory ? GOLEM_E_MEMORY : GOLEM_OK;
}

// The steps of few tiles, each step shared: ranges of keys, then queries, then ranges of value dimensions. Neither cut
// changes the order of a sum.
int attend_split(const Command &c, const Attention &a, const Tile *tiles, int64_t count, double cost) {
  thread_local Scratch<float> scratch;
  thread_local Scratch<Tile> placed;
  const int64_t kv_heads = a.cache.kv_heads, group = group_of(a), items = count * kv_heads;
  int64_t floats = 0, ranges = 0, queries = 0;
  for (int64_t i = 0; i < count; i++) {
    const int64_t n = (reach(a, tiles[i]) + kScoreRange - 1) / kScoreRange;
    floats += kv_heads * floats_of(a, tiles[i]);
    if (n > ranges) ranges = n;
    if (tiles[i].rows * group > queries) queries = tiles[i].rows * group;
  }
  float *memory = scratch.of(floats);
  Tile *work = placed.of(items);
  if (memory == nullptr || work == nullptr) return GOLEM_E_MEMORY;
  for (int64_t i = 0; i < items; i++) {
    work[i] = tiles[i / kv_heads];
    work[i].kv_head = i % kv_heads;
    place(a, work[i], memory);
    memory += floats_of(a, work[i]);
    kernels().attend_queries(a, work[i]);
  }
  const int64_t cuts = (a.cache.vd + kValueRange - 1) / kValueRange;
  const auto each = [&](int64_t parts, auto fn) {
    c.share(items * parts, cost / 2 / static_cast<double>(items * parts), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) fn(work[i / parts], i % parts);
    });
  };
  each(ranges, [&](const Tile &t, int64_t range) {
    const int64_t begin = first_of(a, t.pos) + range * kScoreRange, end = begin + kScoreRange;
    if (begin < end_of(t)) kernels().attend_scores(a, t, begin, end < end_of(t) ? end : end_of(t));
  });
  each(queries, [&](const Tile &t, int64_t query) {
    if (query < t.rows * group) kernels().attend_weights(a, t, query);
  });
  each(cuts, [&](const Tile &t, int64_t cut) {
    const int64_t begin = cut * kValueRange, end = begin + kValueRange;
    kernels().attend_values(a, t, begin, end < a.cache.vd ? end : a.cache.vd);
  });
  return GOLEM_OK;
}

}  // namespace

int run_attn(const Command &c) {
  const int64_t heads = c.i(0), window = c.i(6), slots = c.i(5), block = c.i(8) == 0 ? 1 : c.i(8);
  if (!c.pointers(6)) return GOLEM_E_NULL;
  const Cache cache{c.in<uint8_t>(2), c.in<uint8_t>(3), c.i(7), c.i(1), c.i(4), c.i(2), c.i(3)};
  const int32_t *slot = c.in<int32_t>(4), *position = c.in<int32_t>(5);
  int error = check_cache(cache, slots);
  if (error == GOLEM_OK && (!sizes_fit(heads) || heads % cache.kv_heads != 0 || window < 0 || !sizes_fit(block))) error = GOLEM_E_SHAPE;
  if (error == GOLEM_OK) error = check_slots(slot, position, c.rows, slots);
  if (error != GOLEM_OK) return error;
  const Attention a{cache, c.in<float>(1), c.out<float>(0), heads, window, block, c.f(0), c.f(1)};
  for (int64_t r = 0; r < c.rows; r++)
    if (position[r] + 1 - first_of(a, position[r]) > cache.ring) return GOLEM_E_POSITION;
  thread_local Scratch<Tile> scratch;
  Tile *tiles = scratch.of(c.rows);
  if (tiles == nullptr) return GOLEM_E_MEMORY;
  const int64_t count = cut(a, slot, position, c.rows, tiles);
  double cost = 0;
  for (int64_t i = 0; i < count; i++) cost += static_cast<double>(cache.kv_heads) * cost_of(a, tiles[i]);
  const bool few = count * cache.kv_heads < 4 * c.pool.threads();
  if (few && c.pool.threads() > 1 && cost > kWorthSplitting) return attend_split(c, a, tiles, count, cost);
  return attend_whole(c, a, tiles, count, cost);
}

}  // namespace golem
