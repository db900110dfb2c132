// Weighted sums of values: out = out + weight * value in float32, key after key in the order of their positions.
#include "attention.h"
#include "isa_functions.h"
#include "simd.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

constexpr int kQueries = 4;                             // that are taken together
constexpr int kTogether = kRegisters / 2 / kQueries;  // vectors of dimensions whose sums fit half of the registers
constexpr int64_t kSpan = 64;                           // cells whose values stay in the nearest cache for all queries of a tile

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

// What the sums of a span read and write: `count` cells from `values` on, with the weights and sums of up to kQueries queries.
struct Span {
  const uint8_t *values;
  int64_t count, vd, bytes;  // bytes: of one cell
  const float *weights[kQueries];
  float *out[kQueries];
};

// N vectors of dimensions from i on; of the last, n dimensions are there.
template <class Value, int Q, int N>
void add_vectors(const Span &span, int64_t i, int64_t n) {
  vf s[Q][N];
  for (int g = 0; g < Q; g++)
    for (int j = 0; j < N; j++) s[g][j] = load_part(span.out[g] + i + j * kWidth, n);
  const uint8_t *value = span.values;
  for (int64_t cell = 0; cell < span.count; cell++, value += span.bytes) {
    vf x[N];
    for (int j = 0; j < N; j++) x[j] = Value::get(value, span.vd, i + j * kWidth, n);
    for (int g = 0; g < Q; g++) {
      const vf w = set1(span.weights[g][cell]);
      for (int j = 0; j < N; j++) s[g][j] = fma(w, x[j], s[g][j]);
    }
  }
  for (int g = 0; g < Q; g++)
    for (int j = 0; j < N; j++) store_part(span.out[g] + i + j * kWidth, s[g][j], n);
}

template <class Value, int Q>
void add_span(const Span &span, int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + kTogether * kWidth <= end; i += kTogether * kWidth) add_vectors<Value, Q, kTogether>(span, i, kWidth);
  for (; i < end; i += kWidth) add_vectors<Value, Q, 1>(span, i, end - i);
}

template <class Value>
void add(const Span &span, int64_t queries, int64_t begin, int64_t end) {
  switch (queries) {
    case 1: add_span<Value, 1>(span, begin, end); break;
    case 2: add_span<Value, 2>(span, begin, end); break;
    case 3: add_span<Value, 3>(span, begin, end); break;
    default: add_span<Value, 4>(span, begin, end);
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
  Span span{};
  span.vd = a.cache.vd;
  span.bytes = row_bytes(a.cache.type, a.cache.vd);
  for (int64_t j = 0; j < queries; j++)
    for (int64_t i = begin; i < end; i++) out_of(a, t, j)[i] = 0;
  for (int64_t p = first_of(a, t.pos); p < end_of(t);) {
    const int64_t cell = p % ring, room = ring - cell, left = end_of(t) - p;
    const int64_t most = room < kSpan ? room : kSpan, stop = p + (left < most ? left : most);
    for (int64_t j = 0; j < queries;) {
      const Part part = part_of(a, t, j, p, stop);
      int64_t n = 1;
      while (n < kQueries && j + n < queries && part_of(a, t, j + n, p, stop) == part) n++;
      if (part.begin < part.end) {
        span.values = values + (cell + part.begin - p) * span.bytes;
        span.count = part.end - part.begin;
        for (int64_t g = 0; g < n; g++) {
          const int64_t first = first_of(a, t.pos + (j + g) / group);
          span.weights[g] = t.weights + (j + g) * t.stride + part.begin - first;
          span.out[g] = out_of(a, t, j + g);
        }
        if (a.cache.type == kCacheF16) add<Halves>(span, n, begin, end);
        else if (a.cache.type == kCacheF32) add<Floats>(span, n, begin, end);
        else add<Codes>(span, n, begin, end);
      }
      j += n;
    }
    p = stop;
  }
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
