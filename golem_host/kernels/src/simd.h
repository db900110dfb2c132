// Float vectors of the instruction set a file is compiled for. The files of CMake's GOLEM_ISA_SOURCES are
// compiled once per instruction set; everything they define lives in namespace golem::GOLEM_ISA_NAMESPACE,
// and they call no inline function with external linkage, so that no copy for a newer CPU can be linked
// into code for an older one.
//
// kRegisters vectors fit the registers; vf holds kWidth floats, with + - * / and:
//   fma(a, b, c) = a * b + c; add_product(s, a, b) = fma(a, b, s), for sums that stay in their registers
//   smaller(a, b), larger(a, b): b where either is NaN
//   at_least(a, b): bit i says whether a[i] >= b[i], false for NaN
//   sum(a): of all lanes; sum_4(a, out): of four vectors, the same bits as sum
//   transpose(a): kWidth vectors as a matrix, in place
//   set_half(p): one half in every lane; load_int8(p): kWidth signed bytes as float
//   load_n / store_n: the first n < kWidth lanes, the others 0 / untouched
#pragma once

#if defined(GOLEM_ISA_AVX512)
#include "simd_avx512.h"
#elif defined(GOLEM_ISA_AVX2)
#include "simd_avx2.h"
#elif defined(GOLEM_ISA_NEON)
#include "simd_neon.h"
#else
#include "simd_generic.h"
#endif

namespace golem {
namespace GOLEM_ISA_NAMESPACE {

// P(r) of e^r = 1 + r + r^2 P(r) where |r| <= ln 2 / 2, Taylor-like (Cephes expf).
GOLEM_INLINE vf exp_polynomial(vf r) {
  vf p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  return fma(p, r, set1(5.0000001201e-1f));
}

// e^x within 2 ulp: x = n ln 2 + r, 0 below the smallest normal.
GOLEM_INLINE vf exp(vf x) {
  const vf low = set1(-87.3365447f), clamped = larger(low, smaller(set1(88.3762626f), x));
  const vf n = round_even(clamped * set1(1.44269504088896341f));
  vf r = fma(n, set1(-0.693359375f), clamped);
  r = fma(n, set1(2.12194440e-4f), r);
  const vf p = fma(exp_polynomial(r), r * r, r + set1(1.0f));
  return where_less(x, low, zero(), p * power_of_two(n));
}

// e^x - 1 of x <= 0 within 2 ulp.
GOLEM_INLINE vf exp_minus_1(vf x) {
  const vf near = larger(set1(-0.35f), x);
  return where_less(x, set1(-0.34657359f), exp(x) - set1(1.0f), fma(exp_polynomial(near), near * near, near));
}

// tanh x: odd polynomial near zero, else from e^2x (Cephes tanhf).
GOLEM_INLINE vf tanh(vf x) {
  const vf s = x * x;
  vf p = set1(-5.70498872745e-3f);
  p = fma(p, s, set1(2.06390887954e-2f));
  p = fma(p, s, set1(-5.37397155531e-2f));
  p = fma(p, s, set1(1.33314422036e-1f));
  p = fma(p, s, set1(-3.33332819422e-1f));
  const vf near = fma(p * s, x, x);
  const vf magnitude = absolute(x);
  const vf far = set1(1.0f) - set1(2.0f) / (exp(magnitude + magnitude) + set1(1.0f));
  return where_less(magnitude, set1(0.625f), near, with_sign_of(x, far));
}

GOLEM_INLINE vf sigmoid(vf x) { return set1(1.0f) / (set1(1.0f) + exp(zero() - x)); }

GOLEM_INLINE vf silu(vf x) { return x / (set1(1.0f) + exp(zero() - x)); }

GOLEM_INLINE vf load_part(const float *p, int64_t n) { return n >= kWidth ? load(p) : load_n(p, static_cast<int>(n)); }

GOLEM_INLINE void store_part(float *p, vf x, int64_t n) {
  if (n >= kWidth) store(p, x);
  else store_n(p, x, static_cast<int>(n));
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
