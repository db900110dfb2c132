// Functions whose precision Vulkan leaves to the driver (exp, tanh, log, division, square root), made of additions and
// multiplications, which every driver rounds correctly. They give the bits of the processor's (kernels/src/simd.h), but for
// log and softplus.
#include "fused.glsl"

bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

float power_of_two(int n) { return uintBitsToFloat(uint(n + 127) << 23); }  // -126 <= n <= 127

// a / b of pairs x + y, of which y is at most half a unit of x in the last place, as correct rounding gives it. Vulkan's
// own quotient may be some units off: it is corrected by what it leaves, which is exact, and then moved to the nearest.
// Quotients that are not finite, or below 2^-100, are as the driver gives them.
float quotient_of_pairs(vec2 a, vec2 b) {
  if (abs(b.x) > 1e30) {  // so that products stay finite
    a *= 2.3283064365386963e-10;  // 2^-32
    b *= 2.3283064365386963e-10;
  }
  precise float q = a.x / b.x;
  uint exponent = floatBitsToUint(q) & 0x7f800000u;
  if (exponent < 0x0d800000u || exponent == 0x7f800000u) return q;
  vec2 product = two_product(q, b.x);
  precise float rest = ((a.x - product.x) - product.y) + (a.y - q * b.y);
  q = q + rest / b.x;
  product = two_product(q, b.x);
  rest = ((a.x - product.x) - product.y) + (a.y - q * b.y);
  const uint bits = floatBitsToUint(q);
  const bool outwards = (rest < 0.0) == ((floatBitsToUint(a.x) & 0x80000000u) != 0u);  // the quotient is larger than q
  exponent = (bits & 0x7f800000u) - (!outwards && (bits & 0x7fffffu) == 0u ? 0x0c800000u : 0x0c000000u);
  precise float half_unit = abs(uintBitsToFloat(exponent) * b.x);
  return abs(rest) <= half_unit ? q : uintBitsToFloat(outwards ? bits + 1u : bits - 1u);
}

// a / b as correct rounding gives it.
float quotient(float a, float b) { return quotient_of_pairs(vec2(a, 0.0), vec2(b, 0.0)); }

// The square root as correct rounding gives it, of numbers that are not below 2^-100.
float sqrt_of(float x) {
  precise float s = sqrt(x);
  if (!(x >= 7.9e-31) || floatBitsToUint(x) >= 0x7f800000u) return s;
  vec2 square = two_product(s, s);
  precise float rest = (x - square.x) - square.y;
  s = s + rest / (s + s);
  square = two_product(s, s);
  rest = (x - square.x) - square.y;
  const uint bits = floatBitsToUint(s);
  precise float unit = uintBitsToFloat((bits & 0x7f800000u) - 0x0b800000u) * s;
  if (rest > unit) return uintBitsToFloat(bits + 1u);
  if ((bits & 0x7fffffu) == 0u) unit = unit * 0.5;
  return rest <= -unit ? uintBitsToFloat(bits - 1u) : s;
}

// e^x within 2 ulp: x = n ln 2 + r, a polynomial of e^r (Cephes expf); 0 below the smallest normal number, and nearly the
// largest number beyond it.
float exp_of(float x) {
  const float clamped = clamp(x, -87.3365447, 88.3762626);
  precise float n = roundEven(clamped * 1.44269504088896341);
  precise float r = fma_of(n, -0.693359375, clamped);
  r = fma_of(n, 2.12194440e-4, r);
  precise float p = 1.9875691500e-4;
  p = fma_of(p, r, 1.3981999507e-3);
  p = fma_of(p, r, 8.3334519073e-3);
  p = fma_of(p, r, 4.1665795894e-2);
  p = fma_of(p, r, 1.6666665459e-1);
  p = fma_of(p, r, 5.0000001201e-1);
  precise float s = r * r, t = r + 1.0;
  p = fma_of(p, s, t);
  p = p * power_of_two(int(n));
  return is_nan(x) ? x : x < -87.3365447 ? 0.0 : p;
}

// tanh x: an odd polynomial near zero, else from e^2x (Cephes tanhf).
float tanh_of(float x) {
  precise float s = x * x;
  precise float p = -5.70498872745e-3;
  p = fma_of(p, s, 2.06390887954e-2);
  p = fma_of(p, s, -5.37397155531e-2);
  p = fma_of(p, s, 1.33314422036e-1);
  p = fma_of(p, s, -3.33332819422e-1);
  p = p * s;
  const float near = fma_of(p, x, x), magnitude = abs(x);
  precise float below = exp_of(magnitude + magnitude) + 1.0;
  precise float far = 1.0 - quotient(2.0, below);
  return magnitude < 0.625 ? near : x < 0.0 ? -far : far;
}

float sigmoid_of(float x) {
  precise float below = 1.0 + exp_of(-x);
  return quotient(1.0, below);
}

float silu_of(float x) {
  precise float below = 1.0 + exp_of(-x);
  return quotient(x, below);
}

// log(1 + y) for 0 <= y <= 1: 2 artanh(y / (2 + y)), whose argument is at most 1/3.
float log1p_of(float y) {
  precise float t = y / (2.0 + y), s = t * t;
  precise float p = 1.0 / 17.0;
  p = fma(p, s, 1.0 / 15.0);
  p = fma(p, s, 1.0 / 13.0);
  p = fma(p, s, 1.0 / 11.0);
  p = fma(p, s, 1.0 / 9.0);
  p = fma(p, s, 1.0 / 7.0);
  p = fma(p, s, 0.2);
  p = fma(p, s, 1.0 / 3.0);
  p = p * s;
  return 2.0 * fma(p, t, t);
}

// log(n) for n >= 1
float log_of(uint n) {
  const int exponent = findMSB(n);
  precise float y = float(n - (1u << exponent)) / float(1u << exponent);
  return fma(float(exponent), 0.69314718, log1p_of(y));
}

// log(1 + e^x)
float softplus_of(float x) {
  precise float y = max(x, 0.0) + log1p_of(exp_of(-abs(x)));
  return is_nan(x) ? x : y;
}
