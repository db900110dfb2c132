// RMS, L2 and layer norms of one row. Sums are taken in double, as ggml does, in eight partial sums.
#include <cmath>

#include "isa_functions.h"
#include "simd.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

template <class Fn>
double sum_of(const float *x, int64_t n, Fn fn) {
  double part[8] = {0};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int j = 0; j < 8; j++) part[j] += static_cast<double>(fn(x[i + j]));
  for (int j = 0; i + j < n; j++) part[j] += static_cast<double>(fn(x[i + j]));
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

double sum_of_squares(const float *x, int64_t n) {
  return sum_of(x, n, [](float value) { return value * value; });
}

}  // namespace

void rms_norm(float *out, const float *x, const float *weight, int64_t n, float eps) {
  const float mean = static_cast<float>(sum_of_squares(x, n) / static_cast<double>(n));
  const float by = 1.0f / sqrtf(mean + eps);
  if (weight == nullptr) {
    scale(out, x, by, n);
    return;
  }
  const vf s = set1(by);
  for (int64_t i = 0; i < n; i += kWidth)
    store_part(out + i, load_part(x + i, n - i) * s * load_part(weight + i, n - i), n - i);
}

void l2_norm(float *out, const float *x, int64_t n, float eps) {
  scale(out, x, 1.0f / sqrtf(static_cast<float>(sum_of_squares(x, n)) + eps), n);
}

void layer_norm(float *out, const float *x, const float *weight, const float *bias, int64_t n, float eps) {
  const float mean = static_cast<float>(sum_of(x, n, [](float value) { return value; }) / static_cast<double>(n));
  const double squares = sum_of(x, n, [=](float value) { return (value - mean) * (value - mean); });
  const vf m = set1(mean), by = set1(1.0f / sqrtf(static_cast<float>(squares / static_cast<double>(n)) + eps));
  for (int64_t i = 0; i < n; i += kWidth) {
    const vf y = (load_part(x + i, n - i) - m) * by * load_part(weight + i, n - i);
    store_part(out + i, bias == nullptr ? y : y + load_part(bias + i, n - i), n - i);
  }
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
