// Rotary position embedding of one head.
#include "golem_kernels.h"
#include "isa_functions.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {

void rotate(float *out, const float *x, const float *angles, int64_t hd, int64_t n_rot, int style) {
  const int64_t half = n_rot / 2;
  const int64_t step = style == GOLEM_ROPE_NORM ? 2 : 1, apart = style == GOLEM_ROPE_NORM ? 1 : half;
  for (int64_t i = 0; i < half; i++) {
    const float c = angles[2 * i], s = angles[2 * i + 1];
    const float a = x[step * i], b = x[step * i + apart];
    out[step * i] = a * c - b * s;
    out[step * i + apart] = a * s + b * c;
  }
  if (out != x)
    for (int64_t i = n_rot; i < hd; i++) out[i] = x[i];
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
