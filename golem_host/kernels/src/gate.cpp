// Gated activations: out = act(gate) * up.
#include "gelu.h"
#include "isa_functions.h"
#include "simd.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {

void gate_silu(float *out, const float *gate, const float *up, int64_t n) {
  for (int64_t i = 0; i < n; i += kWidth)
    store_part(out + i, silu(load_part(gate + i, n - i)) * load_part(up + i, n - i), n - i);
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
    const vf y = where_less(x, above_minus_ten, zero(), inside);
    store_part(out + i, y * load_part(up + i, n - i), n - i);
  }
}

void gate_sigmoid(float *out, const float *gate, const float *up, int64_t n) {
  for (int64_t i = 0; i < n; i += kWidth) {
    const vf y = sigmoid(load_part(gate + i, n - i));
    store_part(out + i, up == nullptr ? y : y * load_part(up + i, n - i), n - i);
  }
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
