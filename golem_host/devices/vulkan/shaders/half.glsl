// Half precision and bfloat16 in whole numbers: pack and unpack functions may round as the driver likes, or lose small
// halves. Here the nearest is taken, ties to even.

uint half_bits(float x) {
  const uint bits = floatBitsToUint(x), sign = (bits >> 16) & 0x8000u, a = bits & 0x7fffffffu;
  if (a > 0x7f800000u) return sign | 0x7e00u;
  if (a >= 0x47800000u) return sign | 0x7c00u;  // 65536 and more
  if (a >= 0x38800000u) return sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13);
  // below 2^-14: multiples of 2^-24
  const uint shift = 126u - (a >> 23);
  if (shift > 24u) return sign;
  const uint mantissa = (a & 0x7fffffu) | 0x800000u;
  return sign | ((mantissa + (1u << (shift - 1u)) - 1u + ((mantissa >> shift) & 1u)) >> shift);
}

uint half_pair(float x, float y) { return half_bits(x) | half_bits(y) << 16; }

float half_value(uint h) {
  const uint magnitude = h & 0x7fffu, sign = (h & 0x8000u) << 16;
  if (magnitude < 0x0400u) return uintBitsToFloat(floatBitsToUint(float(magnitude) * 5.9604644775390625e-8) | sign);  // 2^-24
  const uint shifted = (magnitude << 13) + (112u << 23);
  return uintBitsToFloat((magnitude < 0x7c00u ? shifted : shifted | 0x7f800000u) | sign);
}

float rounded_to_half(float x) { return half_value(half_bits(x)); }

uint bfloat_bits(float x) {
  const uint bits = floatBitsToUint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}
