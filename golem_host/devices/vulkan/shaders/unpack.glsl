// Two halves of a word as floats. unpackHalf2x16 may take halves below 2^-14 for zero: there they are put together in whole
// numbers.
#ifndef UNPACK_GLSL
#define UNPACK_GLSL

layout(constant_id = 98) const bool KEEPS_SMALL_HALVES = true;  // (facts.py); set for every pipeline

vec2 halves(uint word) {
  if (KEEPS_SMALL_HALVES) return unpackHalf2x16(word);
  const uvec2 h = uvec2(word << 16, word & 0xffff0000u), magnitude = (h & 0x7fff0000u) >> 3;
  const uvec2 raised = magnitude + 0x38000000u;  // times 2^112
  const vec2 small = uintBitsToFloat(magnitude + 0x38800000u) - 6.103515625e-5;  // 2^-14
  const uvec2 normal = mix(raised, raised + 0x38000000u, greaterThanEqual(magnitude, uvec2(0x0f800000u)));
  const uvec2 bits = mix(normal, floatBitsToUint(small), lessThan(magnitude, uvec2(0x00800000u)));
  return uintBitsToFloat(bits | (h & 0x80000000u));
}

#endif
