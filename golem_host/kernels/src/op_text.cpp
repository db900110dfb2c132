// Attention of float rows, over all rows or within texts that lie one after the other in a pass; means of a text's rows.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "attention.h"
#include "command.h"
#include "scratch.h"

namespace golem {
namespace {

// Queries that share the panels of keys and values, whole groups of columns of a product: within texts, which may be short
// or see few rows, and over all rows.
constexpr int64_t kTileQueries = 48, kFullTileQueries = 144;

// The texts' queries in tiles of one head; how many. A tile's bounds, its keys' too, depend on the text alone.
int64_t cut(const int32_t *text, int64_t rows, int64_t window, TextTile *tiles) {
  int64_t count = 0;
  for (int64_t first = 0, end; first < rows; first = end) {
    for (end = first + 1; end < rows && text[end] == text[first]; end++) {}
    for (int64_t at = first; at < end; at += kTileQueries) {
      const int64_t last = at + kTileQueries < end ? at + kTileQueries : end;
      const bool all = window == 0 || window >= end - first;
      const int64_t from = all || at - first < window ? first : at - window;
      const int64_t to = all || end - last < window ? end : last + window;
      tiles[count++] = {from, to - from, to - from, at, last, 0};
    }
  }
  return count;
}

// About how many nanoseconds a tile takes one core.
double cost_of(const TextTile &t, int64_t hd) {
  const double keys = static_cast<double>(t.rows), queries = static_cast<double>(t.end - t.begin);
  return keys * static_cast<double>(hd) * (0.3 + 0.04 * queries) + keys * queries;
}

// What a thread computes a tile in.
float *memory_of(int64_t floats) {
  thread_local Scratch<float> scratch;
  return scratch.of(floats);
}

// The keys and values that a thread has laid out last, and for which command.
struct Laid {
  Scratch<float> panels;
  uint64_t command = 0;
  int64_t head, first, rows;
};

// All heads of `count` tiles of texts. A thread lays a head's keys and values out once for all tiles that see the same.
int attend_texts(const Command &c, const TextAttention &a, const TextTile *tiles, int64_t count) {
  static std::atomic<uint64_t> commands{0};
  const uint64_t command = ++commands;
  int64_t floats = 0, panel_floats = 0;
  double cost = 0;
  for (int64_t i = 0; i < count; i++) {
    floats = std::max(floats, kernels().text_attention_floats(tiles[i], a.hd));
    panel_floats = std::max(panel_floats, kernels().text_panel_floats(tiles[i], a.hd));
    cost += cost_of(tiles[i], a.hd);
  }
  std::atomic<bool> short_of_memory{false};
  c.share(count * a.heads, cost / static_cast<double>(count), [&](int64_t begin, int64_t end) {
    thread_local Laid mine;
    float *const memory = memory_of(floats), *const panels = mine.panels.of(panel_floats);
    if (memory == nullptr || panels == nullptr) {
      short_of_memory = true;
      return;
    }
    for (int64_t item = begin; item < end; item++) {
      TextTile tile = tiles[item % count];
      tile.head = item / count;
      if (mine.command != command || mine.head != tile.head || mine.first != tile.first || mine.rows != tile.rows) {
        kernels().lay_text(a, tile, 0, kernels().text_lay_units(tile), panels, memory);
        mine.command = command;
        mine.head = tile.head;
        mine.first = tile.first;
        mine.rows = tile.rows;
      }
      kernels().attend_text(a, tile, panels, memory);
    }
  });
  return short_of_memory ? GOLEM_E_MEMORY : GOLEM_OK;
}

// Heads that read kv heads begin..end, of `count` tiles that see the first of the same keys. Threads lay these out together,
// of as many kv heads at a time as fit a farther cache, or of one.
int attend_all(const Command &c, const TextAttention &a, const TextTile *tiles, int64_t count, int64_t begin, int64_t end) {
  constexpr int64_t kFarCache = int64_t{4} << 20;
  constexpr double kLayNs = 0.3;  // for a float of keys or values
  const TextTile &last = tiles[count - 1];
  const int64_t panel_floats = kernels().text_panel_floats(last, a.hd), units = kernels().text_lay_units(last), group = a.heads / a.kv_heads;
  const int64_t fitting = kFarCache / (panel_floats * static_cast<int64_t>(sizeof(float)));
  const int64_t together = std::min(std::max(fitting, int64_t{1}), end - begin);
  thread_local Scratch<float> scratch;
  float *const panels = scratch.of(together * panel_floats);
  if (panels == nullptr) return GOLEM_E_MEMORY;
  int64_t floats = 0;
  double cost = 0;
  for (int64_t i = 0; i < count; i++) {
    floats = std::max(floats, kernels().text_attention_floats(tiles[i], a.hd));
    cost += cost_of(tiles[i], a.hd);
  }
  const auto tile_of = [&](int64_t tile, int64_t head) {
    TextTile t = tiles[tile];
    t.head = head;
    return t;
  };
  std::atomic<bool> short_of_memory{false};
  for (int64_t kv_head = begin; kv_head < end; kv_head += together) {
    const int64_t heads = std::min(together, end - kv_head);
    c.share(heads * units, kLayNs * static_cast<double>(panel_floats) / static_cast<double>(units), [&](int64_t from, int64_t to) {
      float *const memory = memory_of(floats);
      if (memory == nullptr) short_of_memory = true;
      for (int64_t item = from; item < to && memory != nullptr; item++) {
        const int64_t at = item / units, unit = item % units;
        kernels().lay_text(a, tile_of(count - 1, (kv_head + at) * group), unit, unit + 1, panels + at * panel_floats, memory);
      }
    });
    if (short_of_memory) return GOLEM_E_MEMORY;
    c.share(heads * group * count, cost / static_cast<double>(count), [&](int64_t from, int64_t to) {
      float *const memory = memory_of(floats);
      if (memory == nullptr) short_of_memory = true;
      for (int64_t item = from; item < to && memory != nullptr; item++) {
        const int64_t head = item / count;
        kernels().attend_text(a, tile_of(item % count, kv_head * group + head), panels + head / group * panel_floats, memory);
      }
    });
    if (short_of_memory) return GOLEM_E_MEMORY;
  }
  return GOLEM_OK;
}

}  // namespace

int run_text_attn(const Command &c) {
  const int64_t heads = c.i(0), hd = c.i(1), window = c.i(2);
  if (!c.pointers(5)) return GOLEM_E_NULL;
  if (!sizes_fit(heads, hd) || hd > kMaxHeadDim || window < 0) return GOLEM_E_SHAPE;
  thread_local Scratch<TextTile> scratch;
  TextTile *tiles = scratch.of(c.rows);
  if (tiles == nullptr) return GOLEM_E_MEMORY;
  const int64_t count = cut(c.in<int32_t>(4), c.rows, window, tiles);
  const TextAttention a{c.in<float>(1), c.in<float>(2), c.in<float>(3), c.out<float>(0), heads, heads, hd, c.f(0), window, false, 0, false};
  return attend_texts(c, a, tiles, count);
}

int run_full_attn(const Command &c) {
  const int64_t heads = c.i(0), kv_heads = c.i(1), hd = c.i(2), axis = c.i(3), first = c.i(5), causal = c.i(6), coarse = c.i(7);
  const int64_t from = c.i(8), some = c.i(9) == 0 ? kv_heads : c.i(9);
  if (!c.pointers(4) || (axis >= 0 && c.live == nullptr)) return GOLEM_E_NULL;
  if (!sizes_fit(heads, kv_heads, hd) || hd > kMaxHeadDim || heads % kv_heads != 0 || causal < 0 || causal > 1 || coarse < 0 ||
      coarse > 1 || from < 0 || some < 0 || from > kv_heads - some)
    return GOLEM_E_SHAPE;
  const int64_t keys = axis >= 0 ? c.live[axis] : c.i(4);
  if (keys < 1 || keys >= int64_t{1} << 31 || first < 0 || (causal == 1 && first > keys - c.rows)) return GOLEM_E_INDEX;
  const int64_t at_once = heads / kv_heads * some, threads = c.pool.threads(), columns = kernels().product_columns;
  const int64_t most = std::max((c.rows + kFullTileQueries - 1) / kFullTileQueries, (threads + at_once - 1) / at_once);
  const int64_t each = (c.rows + most - 1) / most, step = (each + columns - 1) / columns * columns, laid = causal == 1 ? first + c.rows : keys;
  thread_local Scratch<TextTile> scratch;
  TextTile *tiles = scratch.of(most);
  if (tiles == nullptr) return GOLEM_E_MEMORY;
  int64_t count = 0;
  for (int64_t at = 0; at < c.rows; at += step) {
    const int64_t last = std::min(at + step, c.rows);
    tiles[count++] = {0, causal == 1 ? first + last : keys, laid, at, last, 0};
  }
  const TextAttention a{c.in<float>(1), c.in<float>(2), c.in<float>(3), c.out<float>(0), heads, kv_heads, hd, c.f(0), 0, causal == 1, first, coarse == 1};
  return attend_all(c, a, tiles, count, from, from + some);
}

int run_mean(const Command &c) {
  const int64_t n = c.i(0), axis = c.i(1);
  if (!c.pointers(4) || (axis >= 0 && c.live == nullptr)) return GOLEM_E_NULL;
  if (!sizes_fit(n)) return GOLEM_E_SHAPE;
  const int64_t source_rows = axis >= 0 ? c.live[axis] : c.i(2);
  const int32_t *first = c.in<int32_t>(2), *count = c.in<int32_t>(3);
  double rows = 0;
  for (int64_t r = 0; r < c.rows; r++) {
    if (first[r] < 0 || count[r] < 1 || first[r] > source_rows - count[r]) return GOLEM_E_INDEX;
    rows += count[r];
  }
  const double cost = 0.1 * static_cast<double>(n) * rows / static_cast<double>(c.rows);
  c.share(c.rows, cost, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      const float *x = c.in<float>(1) + first[r] * n;
      float *out = c.out<float>(0) + r * n;
      memcpy(out, x, static_cast<size_t>(n) * sizeof(float));
      for (int64_t i = 1; i < count[r]; i++) kernels().add(out, out, x + i * n, n);
      kernels().scale(out, out, 1.0f / static_cast<float>(count[r]), n);
    }
  });
  return GOLEM_OK;
}

}  // namespace golem
