// Weighted sums of values in float32. Positions are cut into chunks of 64 from 0 on: within one, sum = sum + weight * value,
// key after key; the chunks' sums are added in their order. So many can be made at the same time where there are threads
// enough (devices/vulkan), with the same bits.
#include "attention.h"
#include "isa_functions.h"
#include "simd.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

constexpr int kQueries = 4;                             // that are taken together
constexpr int kTogether = kRegisters / 2 / kQueries;  // vectors of dimensions whose sums fit half of the registers
constexpr int64_t kChunk = 64;                          // positions; their values stay in the nearest cache for all queries of a tile

// Dimensions i .. i + kWidth - 1 of one cell, of which the first n are there.
struct Halves {
  static vf get(const uint8_t *value, int64_t, int64_t i, int64_t n) {
    const uint16_t *halves = reinterpret_cast<const uint16_t *>(value) + i;
    return n >= kWidth ? load_half(halves) : load_half_n(halves, static_cast<int>(n));
  }
};

struct Floats {
  static vf get(const uint8_t *value, int64_t, int64_t i, int64_t n) { return load_part(reinterpret_cast<const float *>(value) + i, n); }
};

// Scale times code is exact.
struct Codes {
  static vf get(const uint8_t *value, int64_t vd, int64_t i, int64_t) {
    return set_half(reinterpret_cast<const uint16_t *>(value + vd) + i / 32) * load_int8(reinterpret_cast<const int8_t *>(value) + i);
  }
};

// What the sums of a chunk read and write: cells of one stretch of the ring and of the one that follows it, with the
// weights and sums of up to kQueries queries.
struct Chunk {
  const uint8_t *values[2];
  int64_t count[2], vd, bytes;  // bytes: of one cell
  const float *weights[kQueries];
  float *out[kQueries];
};

// N vectors of dimensions from i on; of the last, n dimensions are there.
template <class Value, int Q, int N>
void add_vectors(const Chunk &chunk, int64_t i, int64_t n) {
  vf s[Q][N];
  for (int g = 0; g < Q; g++)
    for (int j = 0; j < N; j++) s[g][j] = zero();
  for (int64_t stretch = 0, key = 0; stretch < 2; stretch++) {
    const uint8_t *value = chunk.values[stretch];
    for (const int64_t end = key + chunk.count[stretch]; key < end; key++, value += chunk.bytes) {
      vf x[N];
      for (int j = 0; j < N; j++) x[j] = Value::get(value, chunk.vd, i + j * kWidth, n);
      for (int g = 0; g < Q; g++) {
        const vf w = set1(chunk.weights[g][key]);
        for (int j = 0; j < N; j++) s[g][j] = fma(w, x[j], s[g][j]);
      }
    }
  }
  for (int g = 0; g < Q; g++)
    for (int j = 0; j < N; j++) {
      float *out = chunk.out[g] + i + j * kWidth;
      store_part(out, load_part(out, n) + s[g][j], n);
    }
}

template <class Value, int Q>
void add_chunk(const Chunk &chunk, int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + kTogether * kWidth <= end; i += kTogether * kWidth) add_vectors<Value, Q, kTogether>(chunk, i, kWidth);
  for (; i < end; i += kWidth) add_vectors<Value, Q, 1>(chunk, i, end - i);
}

template <class Value>
void add(const Chunk &chunk, int64_t queries, int64_t begin, int64_t end) {
  switch (queries) {
    case 1: add_chunk<Value, 1>(chunk, begin, end); break;
    case 2: add_chunk<Value, 2>(chunk, begin, end); break;
    case 3: add_chunk<Value, 3>(chunk, begin, end); break;
    default: add_chunk<Value, 4>(chunk, begin, end);
  }
}

// Positions that a query attends of those from `begin` to `end`.
struct Part {
  int64_t begin, end;
  bool operator==(const Part &o) const { return begin == o.begin && end == o.end; }
};

Part part_of(const Attention &a, const Tile &t, int64_t query, int64_t begin, int64_t end) {
  const int64_t pos = t.pos + query / group_of(a), first = first_of(a, pos);
  return {first > begin ? first : begin, pos + 1 < end ? pos + 1 : end};
}

}  // namespace

void attend_values(const Attention &a, const Tile &t, int64_t begin, int64_t end) {
  const int64_t group = group_of(a), queries = t.rows * group, ring = a.cache.ring;
  const uint8_t *values = values_of(a.cache, t.slot, t.kv_head);
  Chunk chunk{};
  chunk.vd = a.cache.vd;
  chunk.bytes = row_bytes(a.cache.type, a.cache.vd);
  for (int64_t j = 0; j < queries; j++)
    for (int64_t i = begin; i < end; i++) out_of(a, t, j)[i] = 0;
  for (int64_t p = first_of(a, t.pos); p < end_of(t);) {
    const int64_t next = p - p % kChunk + kChunk, stop = next < end_of(t) ? next : end_of(t);
    for (int64_t j = 0; j < queries;) {
      const Part part = part_of(a, t, j, p, stop);
      int64_t n = 1;
      while (n < kQueries && j + n < queries && part_of(a, t, j + n, p, stop) == part) n++;
      if (part.begin < part.end) {
        const int64_t cell = part.begin % ring, count = part.end - part.begin, room = ring - cell;
        chunk.values[0] = values + cell * chunk.bytes;
        chunk.values[1] = values;
        chunk.count[0] = count < room ? count : room;
        chunk.count[1] = count - chunk.count[0];
        for (int64_t g = 0; g < n; g++) {
          const int64_t first = first_of(a, t.pos + (j + g) / group);
          chunk.weights[g] = t.weights + (j + g) * t.stride + part.begin - first;
          chunk.out[g] = out_of(a, t, j + g);
        }
        if (a.cache.type == kCacheF16) add<Halves>(chunk, n, begin, end);
        else if (a.cache.type == kCacheF32) add<Floats>(chunk, n, begin, end);
        else add<Codes>(chunk, n, begin, end);
      }
      j += n;
    }
    p = stop;
  }
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
