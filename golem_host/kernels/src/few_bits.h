// Products with blocks that are one scale times a few whole numbers (formats_few_bits.h): what product_lanes.cpp does
// with a tile of them. Tile and Rows are its weight rows and activation rows.
#pragma once
#include "activation.h"
#include "formats_few_bits.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {

// The products of a part of F's with C activation rows. The first trit of a byte b is (3 b - (3 b mod 256)) / 256, and so
// are sums of products with them: where any bytes can be multiplied and activation rows are few, taking the trits out of
// the bytes costs more than a second product.
template <class F, int C>
struct FewBits {
  static constexpr bool kWholeBytes = F::kTrits && C <= kWholeByteColumns;
  vi q[8], rest[8];

  template <int p, class B, class Bytes>
  GOLEM_MEMBER void take(Bytes &bytes) {
    F::template part<p, B>(bytes, q);
    for (int j = 0; j < 8 && F::kTrits; j++) {
      if (kWholeBytes) rest[j] = times_three(q[j]);
      else q[j] = first_trit(q[j]);
    }
  }
  GOLEM_MEMBER vi dot_with(const int8_t *a) const {
    const vi whole = dot<2, 8>(q, a);
    if (!kWholeBytes) return whole;
    return shift_right_signed<8>(sub_int(add_int(add_int(whole, whole), whole), dot<2, 8>(rest, a)));
  }
};

// Blocks of several times 32 values with one scale and Q8_0 activations.
template <class F>
struct FewBits32 {
  using Format = F;

  // The parts of a group from part p on, block `at` of the activations: inner[c] += d_a * whole.
  template <int C, int p, class B, class Bytes, class Rows>
  GOLEM_INLINE void parts(Bytes &bytes, int64_t k, int64_t at, const Rows &x, vf *inner) {
    if constexpr (p < F::kParts) {
      FewBits<F, C> part;
      part.template take<p, B>(bytes);
      const int64_t q_at = 32 * at, d_at = act32_d_at(k, at), s_at = act32_s_at(k, at);
      for (int c = 0; c < C; c++) {
        const uint8_t *row = x.row(c);
        const vi whole = sub_int(part.dot_with(codes_at(row, q_at)), set_int(F::kBias * int_at(row, s_at)));
        inner[c] = inner[c] + set1(float_at(row, d_at)) * to_float(whole);
      }
      parts<C, p + 1, B>(bytes, k, at + 1, x, inner);
    }
  }

  template <int C, class Tile, class Rows>
  static void run(const Tile &tile, int64_t k, const Rows &x, vf *sum) {
    vf acc[C];
    for (int c = 0; c < C; c++) acc[c] = zero();
    for (int64_t b = 0; b < k / F::kValues; b++) {
      const auto block = tile.template block<C>(b);
      vf inner[C];
      for (int c = 0; c < C; c++) inner[c] = zero();
      for (int g = 0; g < F::kGroups; g++) {
        auto bytes = F::load(block, g);
        parts<C, 0, decltype(block)>(bytes, k, (b * F::kGroups + g) * F::kParts, x, inner);
      }
      const vf d = F::scale(block);
      for (int c = 0; c < C; c++) acc[c] = acc[c] + d * inner[c];
    }
    for (int c = 0; c < C; c++) sum[c] = acc[c];
  }
};

// Blocks of 256 values with one scale and Q8_K activations.
template <class F>
struct FewBits256 {
  using Format = F;

  template <int C, int p, class B, class Bytes, class Rows>
  GOLEM_INLINE void parts(Bytes &bytes, int64_t at, const Rows &x, vi *whole) {
    if constexpr (p < F::kParts) {
      FewBits<F, C> part;
      part.template take<p, B>(bytes);
      for (int c = 0; c < C; c++) whole[c] = add_int(whole[c], part.dot_with(codes_at(x.row(c), at)));
      parts<C, p + 1, B>(bytes, at + 32, x, whole);
    }
  }

  template <int C, class Tile, class Rows>
  static void run(const Tile &tile, int64_t k, const Rows &x, vf *sum) {
    vf acc[C];
    for (int c = 0; c < C; c++) acc[c] = zero();
    for (int64_t b = 0; b < k / 256; b++) {
      const auto block = tile.template block<C>(b);
      vi whole[C];
      for (int c = 0; c < C; c++) {
        const int16_t *sums = shorts_at(x.row(c), act256_sum32_at(k, b));
        int32_t total = 0;
        for (int j = 0; j < 8; j++) total += sums[j];
        whole[c] = set_int(-F::kBias * total);
      }
      for (int g = 0; g < F::kGroups; g++) {
        auto bytes = F::load(block, g);
        parts<C, 0, decltype(block)>(bytes, 256 * b + g * (256 / F::kGroups), x, whole);
      }
      const vf d = F::scale(block);
      for (int c = 0; c < C; c++) acc[c] = acc[c] + (d * set1(float_at(x.row(c), act256_d_at(k, b)))) * to_float(whole[c]);
    }
    for (int c = 0; c < C; c++) sum[c] = acc[c];
  }
};

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
