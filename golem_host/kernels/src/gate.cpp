// Gated activations: out = act(gate) * up, or act(gate) where there is no up.
#include "gelu.h"
#include "isa_functions.h"
#include "simd.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {

namespace {

GOLEM_INLINE void put(float *out, vf y, const float *up, int64_t i, int64_t n) {
  store_part(out + i, up == nullptr ? y : y * load_part(up + i, n - i), n - i);
}

// x times the normal distribution function, which is 1 - h for x > 0 and h for x < 0: h = erfc(|x| / sqrt 2) / 2 =
// e^(-x^2 / 2) t P(t) with t = 1 / (1 + 0.3 |x|), as in Abramowitz and Stegun 7.1.26 with more terms; h is within 2e-7 of its
// own size.
GOLEM_INLINE vf gelu_erf(vf x) {
  const vf magnitude = smaller(set1(40.0f), absolute(x));  // there h is 0, and the product with it stays finite
  const vf t = set1(1.0f) / fma(set1(0.3f), magnitude, set1(1.0f));
  vf p = set1(0.0361950286f);
  p = fma(p, t, set1(-0.159378991f));
  p = fma(p, t, set1(0.210119471f));
  p = fma(p, t, set1(-0.0571682751f));
  p = fma(p, t, set1(0.1304169f));
  p = fma(p, t, set1(0.0993470028f));
  p = fma(p, t, set1(0.120845549f));
  p = fma(p, t, set1(0.119623259f));
  const vf h = exp(magnitude * magnitude * set1(-0.5f)) * (p * t);
  return larger(x, zero()) - magnitude * h;
}

}  // namespace

void gate_silu(float *out, const float *gate, const float *up, int64_t n) {
  for (int64_t i = 0; i < n; i += kWidth) put(out, silu(load_part(gate + i, n - i)), up, i, n);
}

void gate_gelu(float *out, const float *gate, const float *up, int64_t n) {
  const uint16_t *table = gelu_table();
  const vf above_minus_ten = set1(-9.99999905f), ten = set1(10.0f);  // x < the float above -10: x <= -10
  for (int64_t i = 0; i < n; i += kWidth) {
    const vf x = load_part(gate + i, n - i);
    uint16_t code[kWidth];
    store_half(code, x);
    for (int j = 0; j < kWidth; j++) code[j] = table[code[j]];
    const vf inside = where_less(x, ten, load_half(code), x);
    put(out, where_less(x, above_minus_ten, zero(), inside), up, i, n);
  }
}

void gate_sigmoid(float *out, const float *gate, const float *up, int64_t n) {
  for (int64_t i = 0; i < n; i += kWidth) put(out, sigmoid(load_part(gate + i, n - i)), up, i, n);
}

void gate_gelu_erf(float *out, const float *gate, const float *up, int64_t n) {
  for (int64_t i = 0; i < n; i += kWidth) put(out, gelu_erf(load_part(gate + i, n - i)), up, i, n);
}

void gate_elu(float *out, const float *gate, const float *up, int64_t n) {
  for (int64_t i = 0; i < n; i += kWidth) {
    const vf x = load_part(gate + i, n - i);
    put(out, where_less(x, zero(), exp_minus_1(x), x), up, i, n);
  }
}

void gate_gelu_tanh(float *out, const float *gate, const float *up, int64_t n) {
  for (int64_t i = 0; i < n; i += kWidth) {
    const vf x = load_part(gate + i, n - i);
    // 0.5 (1 + tanh u) = sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)
    const vf twice = set1(1.5957691216057308f) * fma(x * x * x, set1(0.044715f), x);
    put(out, x * sigmoid(twice), up, i, n);
  }
}

void gate_relu(float *out, const float *gate, const float *up, int64_t n) {
  for (int64_t i = 0; i < n; i += kWidth) {
    const vf x = load_part(gate + i, n - i);
    put(out, where_less(x, zero(), zero(), x), up, i, n);
  }
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
