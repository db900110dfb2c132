// Quantized products on vectors: kLanes weight rows at a time, one per lane, times a few activation rows.
// The sums are those of product_blocks.cpp, to the bit.
#include "product_blocks.h"

#include "activation.h"
#include "isa_functions.h"

#if defined(GOLEM_ISA_AVX512) || defined(GOLEM_ISA_AVX2) || defined(GOLEM_ISA_NEON)
#include "formats256.h"
#include "formats32.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

// Asks for the bytes that the next tile will read, while this one reads block b: weight rows are contiguous, so tiles
// are too. Sixteen short rows at once are more streams than hardware prefetchers follow. Past the end it does nothing.
template <int kBytes>
void prefetch_next_tile(const uint8_t *tile, int64_t stride, int64_t b) {
  const uint8_t *next = tile + kLanes * (stride + b * kBytes);
  for (int at = 0; at < kLanes * kBytes; at += 64) __builtin_prefetch(next + at, 0, 2);
}

// The activation rows of a tile.
struct Activations {
  const uint8_t *first;
  int64_t stride;
  const uint8_t *row(int c) const { return first + c * stride; }
};

// Blocks of 32 with Q8_0 or Q8_1 activations. Each row is reached by one pointer and offsets that all rows share,
// because pointers to every array of every row would not fit the registers.
template <class F>
struct Blocks32 {
  template <int C>
  static void run(const uint8_t *w, int64_t stride, int64_t k, const Activations &x, vf *sum) {
    const uint8_t *first = w;
    vf acc[C];
    for (int c = 0; c < C; c++) acc[c] = zero();
    for (int64_t b = 0; b < k / 32; b++, w += F::kBytes) {
      prefetch_next_tile<F::kBytes>(first, stride, b);
      vi q[8];
      vf d, m = zero();
      F::unpack(w, stride, q, d, m);
      const int64_t q_at = 32 * b, d_at = act32_d_at(k, b), s_at = act32_s_at(k, b);
      for (int c = 0; c < C; c++) {
        const uint8_t *row = x.row(c);
        vi whole = dot<F::kBits, 8>(q, codes_at(row, q_at));
        if (F::kBias != 0) whole = sub_int(whole, set_int(F::kBias * int_at(row, s_at)));
        acc[c] = acc[c] + (d * set1(float_at(row, d_at))) * to_float(whole);
        if (F::kOffset) acc[c] = acc[c] + m * set1(float_at(row, s_at));
      }
    }
    for (int c = 0; c < C; c++) sum[c] = acc[c];
  }
};

// Super-blocks of 256 with Q8_K activations.
template <class F>
struct Blocks256 {
  static constexpr int kSubs = 256 / F::kSub;

  // The parts of one group from part p on: whole[c] += scale * (q . x).
  template <int C, int p>
  static void parts(const vi *raw, const vi *scale, const Activations &x, int64_t at, vi *whole) {
    if constexpr (p < F::kParts) {
      vi q[8];
      F::template part<p>(raw, q);
      for (int c = 0; c < C; c++) {
        const int8_t *a = codes_at(x.row(c), at);
        if (F::kSub == 32) {
          whole[c] = add_int(whole[c], dot_scaled<F::kBits, 8>(q, a, scale[0]));
        } else {
          whole[c] = add_int(whole[c], dot_scaled<F::kBits, 4>(q, a, scale[0]));
          whole[c] = add_int(whole[c], dot_scaled<F::kBits, 4>(q + 4, a + 16, scale[1]));
        }
      }
      parts<C, p + 1>(raw, scale + 32 / F::kSub, x, at + 32, whole);
    }
  }

  // Sum over sub-blocks of factor * (sum of the activations of the sub-block).
  static vi with_sums(const vi *pairs, const int16_t *sums) {
    vi total = set_int(0);
    for (int j = 0; j < kSubs; j += 2) total = dot_pairs(total, pairs[j / 2], sums + j);
    return total;
  }

  static void pair_up(const vi *factor, vi *pairs) {
    for (int j = 0; j < kSubs; j += 2) pairs[j / 2] = pair(factor[j], factor[j + 1]);
  }

  template <int C>
  static void run(const uint8_t *w, int64_t stride, int64_t k, const Activations &x, vf *sum) {
    const uint8_t *first = w;
    for (int c = 0; c < C; c++) sum[c] = zero();
    for (int64_t b = 0; b < k / 256; b++, w += F::kBytes) {
      prefetch_next_tile<F::kBytes>(first, stride, b);
      Head256 head;
      F::head(w, stride, head);
      vi whole[C], scale[kSubs], raw[F::kRaw], pairs[kSubs / 2];
      for (int c = 0; c < C; c++) whole[c] = set_int(0);
      for (int j = 0; j < kSubs; j++) scale[j] = dot_scale(head.scale[j]);
      for (int g = 0; g < F::kGroups; g++) {
        F::load(w, stride, g, raw);
        parts<C, 0>(raw, scale + g * (kSubs / F::kGroups), x, 256 * b + g * (256 / F::kGroups), whole);
      }
      if (F::kBias != 0) pair_up(head.scale, pairs);
      if (F::kMins) pair_up(head.min, pairs);
      const int64_t d_at = act256_d_at(k, b), sums_at = kSubs == 16 ? act256_sum16_at(k, b) : act256_sum32_at(k, b);
      for (int c = 0; c < C; c++) {
        const vf d = set1(float_at(x.row(c), d_at));
        const int16_t *sums = shorts_at(x.row(c), sums_at);
        if (F::kBias != 0) whole[c] = sub_int(whole[c], mul_int(set_int(F::kBias), with_sums(pairs, sums)));
        sum[c] = sum[c] + (head.d * d) * to_float(whole[c]);
        if (F::kMins) sum[c] = sum[c] - (head.dmin * d) * to_float(with_sums(pairs, sums));
      }
    }
  }
};

// Lanes first..kLanes of a tile that starts at weight row o, for C activation rows from c.
template <class Blocks, int C>
void tile(const Product &p, int64_t o, int first, int64_t c) {
  vf sum[C];
  const Activations x{p.x + c * p.x_stride, p.x_stride};
  Blocks::template run<C>(p.w + o * p.w_stride, p.w_stride, p.k, x, sum);
  const vf bias = p.bias == nullptr ? zero() : load(p.bias + o);
  for (int j = 0; j < C; j++) {
    float *out = p.out + (c + j) * p.m + o;
    if (first == 0) {
      store(out, sum[j] + bias);
    } else {
      float lanes[kLanes];
      store(lanes, sum[j] + bias);
      for (int r = first; r < kLanes; r++) out[r] = lanes[r];
    }
  }
}

template <class Blocks>
void columns(const Product &p, int64_t o, int first) {
  int64_t c = 0;
  for (; c + kColumns <= p.rows; c += kColumns) tile<Blocks, kColumns>(p, o, first, c);
  if (kColumns > 4 && c + 4 <= p.rows) {
    tile<Blocks, 4>(p, o, first, c);
    c += 4;
  }
  if (c + 2 <= p.rows) {
    tile<Blocks, 2>(p, o, first, c);
    c += 2;
  }
  if (c < p.rows) tile<Blocks, 1>(p, o, first, c);
}

// Rows that fill no tile are the last lanes of one that ends at `end`; too few for that: the portable product.
template <class Blocks, int type>
void product(const Product &p, int64_t begin, int64_t end) {
  int64_t o = begin;
  for (; o + kLanes <= end; o += kLanes) columns<Blocks>(p, o, 0);
  if (o == end) return;
  if (end >= kLanes) columns<Blocks>(p, end - kLanes, static_cast<int>(kLanes - (end - o)));
  else portable_product(type)(p, o, end);
}

}  // namespace

const int64_t kQuantizedRows = kLanes;

ProductFn quantized_product(int type) {
  switch (type) {
    case Q4_0: return product<Blocks32<FormatQ4_0>, Q4_0>;
    case Q4_1: return product<Blocks32<FormatQ4_1>, Q4_1>;
    case Q5_0: return product<Blocks32<FormatQ5_0>, Q5_0>;
    case Q5_1: return product<Blocks32<FormatQ5_1>, Q5_1>;
    case Q8_0: return product<Blocks32<FormatQ8_0>, Q8_0>;
    case IQ4_NL: return product<Blocks32<FormatIQ4_NL>, IQ4_NL>;
    case Q2_K: return product<Blocks256<FormatQ2_K>, Q2_K>;
    case Q3_K: return product<Blocks256<FormatQ3_K>, Q3_K>;
    case Q4_K: return product<Blocks256<FormatQ4_K>, Q4_K>;
    case Q5_K: return product<Blocks256<FormatQ5_K>, Q5_K>;
    case Q6_K: return product<Blocks256<FormatQ6_K>, Q6_K>;
    case IQ4_XS: return product<Blocks256<FormatIQ4_XS>, IQ4_XS>;
    default: return portable_product(type);
  }
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem

#else

namespace golem {
namespace generic {

const int64_t kQuantizedRows = 1;

ProductFn quantized_product(int type) { return portable_product(type); }

}  // namespace generic
}  // namespace golem

#endif
