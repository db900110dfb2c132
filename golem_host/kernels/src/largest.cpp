// Passes over a row of logits in search of its largest values.
#include <cmath>

#include "isa_functions.h"
#include "simd.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

constexpr int kTogether = 4;
constexpr int64_t kStep = kTogether * kWidth;
static_assert(kMaximaBlock % kStep == 0, "whole steps");

}  // namespace

bool block_maxima(const float *x, int64_t n, float *maxima) {
  vf poison = zero();  // NaN once a value was NaN or infinite
  bool tail_finite = true;
  for (int64_t begin = 0; begin < n; begin += kMaximaBlock) {
    const int64_t end = n - begin < kMaximaBlock ? n : begin + kMaximaBlock;
    vf m[kTogether], p[kTogether];
    for (int j = 0; j < kTogether; j++) m[j] = set1(-INFINITY);
    for (int j = 0; j < kTogether; j++) p[j] = zero();
    int64_t i = begin;
    for (; i + kStep <= end; i += kStep) {
      for (int j = 0; j < kTogether; j++) {
        const vf v = load(x + i + j * kWidth);
        m[j] = larger(v, m[j]);
        p[j] = fma(v, zero(), p[j]);
      }
    }
    poison = poison + ((p[0] + p[1]) + (p[2] + p[3]));
    float top = largest(larger(larger(m[0], m[1]), larger(m[2], m[3])));
    for (; i < end; i++) {
      if (x[i] > top) top = x[i];
      if (!(x[i] - x[i] == 0.0f)) tail_finite = false;
    }
    maxima[begin / kMaximaBlock] = top;
  }
  return tail_finite && sum(poison) == 0.0f;
}

int64_t collect(const float *x, int64_t begin, int64_t end, float floor, int32_t *index, int64_t *count, int64_t room) {
  const vf least = set1(floor);
  int64_t i = begin, found = *count;
  for (; i + kStep <= end && found + kStep <= room; i += kStep) {
    uint32_t bits[kTogether], any = 0;
    for (int j = 0; j < kTogether; j++) {
      bits[j] = at_least(load(x + i + j * kWidth), least);
      any |= bits[j];
    }
    if (any == 0) continue;
    for (int j = 0; j < kTogether; j++)
      for (uint32_t left = bits[j]; left != 0; left &= left - 1)
        index[found++] = static_cast<int32_t>(i + j * kWidth + __builtin_ctz(left));
  }
  for (; end - i < kStep && i < end && found < room; i++)
    if (x[i] >= floor) index[found++] = static_cast<int32_t>(i);
  *count = found;
  return i;
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
