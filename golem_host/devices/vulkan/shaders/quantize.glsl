// Whole-number helpers of the shaders that quantize activations. A row of them is laid out in product.glsl.

bool is_finite(float x) { return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u; }

// a / b rounded to the nearest, ties to even, whatever precision the device divides with. Both are normal and positive;
// a quotient below the normal numbers is 0, one beyond them infinite.
float quotient_of(float a, float b) {
  const uint ua = floatBitsToUint(a), ub = floatBitsToUint(b);
  uint n = (ua & 0x7fffffu) | 0x800000u;
  const uint d = (ub & 0x7fffffu) | 0x800000u;
  int exponent = int(ua >> 23) - int(ub >> 23) + 127;
  if (n < d) {
    n <<= 1;
    exponent--;
  }
  // n * 2^23 / d, between 2^23 and 2^24: an estimate, and what it leaves, which 32 bits hold exactly.
  uint q = uint(float(n) / float(d) * 8388608.0);
  int rest = int((n << 23) - q * d);
  while (rest < 0) {
    q--;
    rest += int(d);
  }
  while (rest >= int(d)) {
    q++;
    rest -= int(d);
  }
  const uint twice = 2u * uint(rest);
  if (twice > d || (twice == d && (q & 1u) == 1u)) q++;
  if (exponent <= 0) return 0.0;
  if (exponent >= 255) return uintBitsToFloat(0x7f800000u);
  return uintBitsToFloat((uint(exponent) << 23) + (q - 0x800000u));
}

// Four codes: x * inverse rounded to even, at most 127.
uint codes_of(vec4 x, float inverse) {
  precise vec4 scaled = x * inverse;
  const ivec4 q = ivec4(min(roundEven(scaled), vec4(127.0))) & 255;
  return uint(q.x | q.y << 8 | q.z << 16 | q.w << 24);
}

int sum_of(uint codes) {
  const ivec4 q = ivec4(codes << 24, codes << 16, codes << 8, codes) >> 24;
  return q.x + q.y + q.z + q.w;
}
