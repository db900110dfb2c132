// One row of the short causal convolution: each channel's weighted sum of its last inputs, then SiLU.
#include "isa_functions.h"
#include "simd.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

// `known` > 0: that many taps, so that the loop over them is unrolled.
template <int known>
void convolve_taps(float *out, const float *const *taps, int64_t width, const float *weight, int64_t stride, int64_t n) {
  const int64_t count = known > 0 ? known : width;
  for (int64_t i = 0; i < n; i += kWidth) {
    vf sum = load_part(taps[0] + i, n - i) * load_part(weight + i, n - i);
    for (int64_t k = 1; k < count; k++)
      sum = fma(load_part(taps[k] + i, n - i), load_part(weight + k * stride + i, n - i), sum);
    store_part(out + i, silu(sum), n - i);
  }
}

}  // namespace

void convolve(float *out, const float *const *taps, int64_t width, const float *weight, int64_t stride, int64_t n) {
  if (width == 4) convolve_taps<4>(out, taps, width, weight, stride, n);
  else convolve_taps<0>(out, taps, width, weight, stride, n);
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
