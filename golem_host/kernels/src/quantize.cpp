// Quantizing one activation row as ggml does on x86 (round half to even, id = 127 / amax).
// A value that is not finite makes the scale of its block NaN, so that it shows in the result.
#include "activation.h"
#include "golem_kernels.h"
#include "isa_functions.h"
#include "simd.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

struct Range {
  float amax;   // largest magnitude
  bool finite;  // all values are
};

Range range_of(const float *x, int n) {
  vf m = zero(), poison = zero();
  for (int i = 0; i < n; i += kWidth) {
    const vf v = load(x + i);
    m = larger(m, absolute(v));
    poison = poison + v * zero();
  }
  return {largest(m), sum(poison) == 0.0f};
}

// q = x * id rounded to even, at most 127.
void quantize_block(const float *x, int n, float id, int8_t *q) {
  const vf scale = set1(id), top = set1(127.0f);
  for (int i = 0; i < n; i += kWidth) store_int8(q + i, smaller(top, round_even(load(x + i) * scale)));
}

int32_t sum_of(const int8_t *q, int n) {
  int32_t s = 0;
  for (int i = 0; i < n; i++) s += q[i];
  return s;
}

void clear(int8_t *q, int n) {
  for (int i = 0; i < n; i++) q[i] = 0;
}

constexpr float kLargest = 3.402823466e38f;

// One block of 32 as Q8_0 and Q8_1 share it; returns d before it is rounded to half.
float block32(const float *x, int8_t *q) {
  const Range range = range_of(x, 32);
  const float id = 127.0f / range.amax;
  if (range.finite && range.amax > 0 && id <= kLargest) {
    quantize_block(x, 32, id, q);
    return range.amax / 127.0f;
  }
  clear(q, 32);
  return range.finite ? 0.0f : float_of(0x7fc00000u);
}

float rounded_to_half(float x) { return half_to_float(float_to_half(x)); }

void q8_0(const float *x, int64_t n, uint8_t *out) {
  int8_t *q = reinterpret_cast<int8_t *>(out);
  float *d = reinterpret_cast<float *>(out + n);
  int32_t *sum = reinterpret_cast<int32_t *>(d + n / 32);
  for (int64_t b = 0; b < n / 32; b++) {
    d[b] = rounded_to_half(block32(x + 32 * b, q + 32 * b));
    sum[b] = sum_of(q + 32 * b, 32);
  }
}

void q8_1(const float *x, int64_t n, uint8_t *out) {
  int8_t *q = reinterpret_cast<int8_t *>(out);
  float *d = reinterpret_cast<float *>(out + n), *s = d + n / 32;
  for (int64_t b = 0; b < n / 32; b++) {
    const float exact = block32(x + 32 * b, q + 32 * b);
    d[b] = rounded_to_half(exact);
    s[b] = rounded_to_half(exact * static_cast<float>(sum_of(q + 32 * b, 32)));
  }
}

// The signed value of the largest magnitude, the first where two tie.
float extreme(const float *x, float amax) {
  int i = 0;
  while (x[i] != amax && x[i] != -amax) i++;
  return x[i];
}

float block256(const float *x, int8_t *q) {
  const Range range = range_of(x, 256);
  if (range.finite && range.amax > 0) {
    const float inverse = -127.0f / extreme(x, range.amax);
    if (inverse >= -kLargest && inverse <= kLargest) {
      quantize_block(x, 256, inverse, q);
      return 1.0f / inverse;
    }
  }
  clear(q, 256);
  return range.finite ? 0.0f : float_of(0x7fc00000u);
}

void q8_k(const float *x, int64_t n, uint8_t *out) {
  int8_t *q = reinterpret_cast<int8_t *>(out);
  float *d = reinterpret_cast<float *>(out + n);
  int16_t *sum16 = reinterpret_cast<int16_t *>(d + n / 256), *sum32 = sum16 + n / 16;
  for (int64_t b = 0; b < n / 256; b++) d[b] = block256(x + 256 * b, q + 256 * b);
  for (int64_t j = 0; j < n / 16; j++) sum16[j] = static_cast<int16_t>(sum_of(q + 16 * j, 16));
  for (int64_t j = 0; j < n / 32; j++) sum32[j] = static_cast<int16_t>(sum16[2 * j] + sum16[2 * j + 1]);
}

void halves(const float *x, int64_t n, float *out) {
  for (int64_t i = 0; i < n; i += kWidth) store_part(out + i, round_to_half(load_part(x + i, n - i)), n - i);
}

}  // namespace

void quantize(int kind, const float *x, int64_t n, uint8_t *out) {
  float *values = reinterpret_cast<float *>(out);
  switch (kind) {
    case GOLEM_ACT_Q8_0: q8_0(x, n, out); break;
    case GOLEM_ACT_Q8_1: q8_1(x, n, out); break;
    case GOLEM_ACT_Q8_K: q8_k(x, n, out); break;
    case GOLEM_ACT_F16: halves(x, n, values); break;
    case GOLEM_ACT_BF16:
      for (int64_t i = 0; i < n; i++) values[i] = round_to_bfloat(x[i]);
      break;
    default:
      for (int64_t i = 0; i < n; i++) values[i] = x[i];
  }
}

void store_half_row(uint16_t *out, const float *x, int64_t n) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store_half(out + i, load(x + i));
  for (; i < n; i++) out[i] = float_to_half(x[i]);
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
