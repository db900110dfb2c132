// Functions whose precision Vulkan leaves to the driver (exp, tanh, log, sin and cos, division), made of additions and
// multiplications, which every driver rounds correctly. Same bits wherever fma is one rounding.

bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

float power_of_two(int n) { return uintBitsToFloat(uint(n + 127) << 23); }  // -126 <= n <= 127

// e^x within 2 ulp: x = n ln 2 + r, a polynomial of e^r (Cephes expf); 0 below the smallest normal number.
float exp_of(float x) {
  precise float n = roundEven(clamp(x, -88.0, 89.0) * 1.44269504088896341);
  precise float r = fma(n, -0.693359375, clamp(x, -88.0, 89.0));
  r = fma(n, 2.12194440e-4, r);
  precise float p = 1.9875691500e-4;
  p = fma(p, r, 1.3981999507e-3);
  p = fma(p, r, 8.3334519073e-3);
  p = fma(p, r, 4.1665795894e-2);
  p = fma(p, r, 1.6666665459e-1);
  p = fma(p, r, 5.0000001201e-1);
  precise float s = r * r, t = r + 1.0;
  p = fma(p, s, t);
  // 2^n in two steps: n may be 128
  const int half_n = int(n) / 2;
  p = p * power_of_two(half_n);
  p = p * power_of_two(int(n) - half_n);
  return is_nan(x) ? x : x < -87.3365447 ? 0.0 : p;
}

// tanh x: an odd polynomial near zero, else from e^2x (Cephes tanhf).
float tanh_of(float x) {
  precise float s = x * x;
  precise float p = -5.70498872745e-3;
  p = fma(p, s, 2.06390887954e-2);
  p = fma(p, s, -5.37397155531e-2);
  p = fma(p, s, 1.33314422036e-1);
  p = fma(p, s, -3.33332819422e-1);
  p = p * s;
  const float near = fma(p, x, x), magnitude = abs(x);
  precise float far = 1.0 - 2.0 / (exp_of(magnitude + magnitude) + 1.0);
  return magnitude < 0.625 ? near : x < 0.0 ? -far : far;
}

float sigmoid_of(float x) {
  precise float below = 1.0 + exp_of(-x);
  return 1.0 / below;
}

float silu_of(float x) {
  precise float below = 1.0 + exp_of(-x);
  return x / below;
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

// a * b = high + low exactly (Dekker 1971), without relying on a fused fma.
void exact_product(float a, float b, out float high, out float low) {
  precise float p = a * b, sa = 4097.0 * a, sb = 4097.0 * b;
  precise float ah = sa - (sa - a), bh = sb - (sb - b), al = a - ah, bl = b - bh;
  precise float e = ah * bh - p;
  e = e + ah * bl;
  e = e + al * bh;
  e = e + al * bl;
  high = p;
  low = e;
}

// a / b as correct rounding gives it, for numbers far from the ends of the range.
float quotient(float a, float b) {
  precise float q = a / b;
  float high, low;
  exact_product(q, b, high, low);
  precise float rest = (a - high) - low;
  q = q + rest / b;
  return q;
}

// 1 / (2 pi) in binary, after the point.
const uint TURN[4] = uint[](0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u);

// cos and sin of x, |x| < 2^32, within 1e-7: the turn is reduced in integers, without loss however large x is.
vec2 cos_sin(float x) {
  const uint bits = floatBitsToUint(x);
  const int scale = int((bits >> 23) & 0xffu) - 150;  // |x| = mantissa * 2^scale
  uint quarter = 0u;
  precise float r = abs(x);
  if (r > 0.75) {
    // 64 bits after the point of 2^scale / (2 pi), times the mantissa, without whole turns
    uint high, low;
    if (scale >= 0) {
      high = scale == 0 ? TURN[0] : TURN[0] << scale | TURN[1] >> (32 - scale);
      low = scale == 0 ? TURN[1] : TURN[1] << scale | TURN[2] >> (32 - scale);
    } else {
      high = TURN[0] >> -scale;
      low = TURN[0] << (32 + scale) | TURN[1] >> -scale;
    }
    const uint mantissa = (bits & 0x7fffffu) | 0x800000u;
    uint carried, rest;
    umulExtended(mantissa, low, carried, rest);
    const uint turn = mantissa * high + carried;
    quarter = (turn + 0x20000000u) >> 30;
    r = float(int(turn - (quarter << 30))) * 1.46291807926715968e-9;  // 2 pi / 2^32
  }
  precise float s = r * r;
  // |r| <= pi / 4 and a little (Cephes sinf, cosf)
  precise float p = fma(-1.9515295891e-4, s, 8.3321608736e-3);
  p = fma(p, s, -1.6666654611e-1);
  p = p * s;
  const float sine = fma(p, r, r);
  precise float c = fma(2.443315711809948e-5, s, -1.388731625493765e-3);
  c = fma(c, s, 4.166664568298827e-2);
  precise float square = s * s;
  c = fma(c, square, fma(-0.5, s, 1.0));
  const vec2 turned = (quarter & 1u) == 0u ? vec2(c, sine) : vec2(-sine, c);
  const vec2 result = (quarter & 2u) == 0u ? turned : -turned;
  return x < 0.0 ? vec2(result.x, -result.y) : result;
}
