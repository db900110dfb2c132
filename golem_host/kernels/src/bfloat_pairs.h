// BF16 weights where AVX512-BF16 is there: a word of a panel is two inputs of an output, which one instruction multiplies
// with two inputs of a row, rounded to bfloat16 and side by side too.
//
// vdpbf16ps adds the product of the second of a pair to the sum, then that of the first, each fused and rounded to nearest
// even; subnormal numbers are zeros to it. So a sum is a fused chain as every other (panel.h), in an order that the width
// of the row alone gives. Rows of an odd number of inputs are multiplied as those of other instruction sets.
#pragma once
#include "panel.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {

GOLEM_INLINE __m512bh as_pairs(vf a) { return (__m512bh)a; }

// Pairs times pairs: k, strides and words of a product are those of the pairs.
struct Pairs : Float32 {
  static GOLEM_MEMBER vf add(vf x, vf w, vf s) { return _mm512_dpbf16_ps(s, as_pairs(x), as_pairs(w)); }
};

// Weights that lie in pairs, times rows of float32.
struct Paired : Input<Paired> {
  using Word = float;
  static constexpr int64_t kInputs = 2;
  static GOLEM_MEMBER vf of(const float *panel, int64_t i, int u, int v) {
    const __m512i pairs = _mm512_castps_si512(load(panel + (i + u) / 2 * kPanelWidth + v * kWidth));
    return _mm512_castsi512_ps(u % 2 != 0 ? _mm512_and_si512(pairs, _mm512_set1_epi32(-0x10000)) : _mm512_slli_epi32(pairs, 16));
  }
};

// x[n], n even, rounded to bfloat16: to nearest even, subnormal numbers to zero.
GOLEM_INLINE void pack_pairs(const float *x, int64_t n, uint16_t *out) {
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) _mm512_storeu_si512(out + i, (__m512i)_mm512_cvtne2ps_pbh(load(x + i + kWidth), load(x + i)));
  for (; i < n; i += kWidth) {
    const int64_t rest = n - i < kWidth ? n - i : kWidth;
    const __m256i words = (__m256i)_mm512_cvtneps_pbh(load_part(x + i, rest));
    _mm256_mask_storeu_epi16(out + i, first_lanes(static_cast<int>(rest)), words);
  }
}

// Each lane of `first` beside that of `second`, rounded as pack_pairs does.
GOLEM_INLINE vf pairs_of(vf first, vf second) {
  const __m512i words = (__m512i)_mm512_cvtne2ps_pbh(second, first);
  const __m512i order = _mm512_add_epi32(_mm512_set1_epi32(16 << 16), _mm512_mullo_epi32(_mm512_set1_epi32(0x10001), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)));
  return _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, words));
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
