// a * b + c rounded once. Vulkan's fma may round the product too, as the software driver's does: there it is made of
// additions and multiplications, forty of them.
#ifndef FUSED_GLSL
#define FUSED_GLSL

layout(constant_id = 99) const bool FUSED = true;  // whether fma rounds once (facts.py); set for every pipeline

// a + b exactly, as a sum and what it leaves (Knuth 1969).
vec2 two_sum(float a, float b) {
  precise float s = a + b, t = s - a;
  precise float rest = (a - (s - t)) + (b - t);
  return vec2(s, rest);
}

// a * b exactly, as a product and what it leaves (Dekker 1971).
vec2 two_product(float a, float b) {
  precise float p = a * b, rest;
  if (FUSED) {
    rest = fma(a, b, -p);
    return vec2(p, rest);
  }
  precise float sa = 4097.0 * a, sb = 4097.0 * b;
  precise float ah = sa - (sa - a), bh = sb - (sb - b), al = a - ah, bl = b - bh;
  rest = ((ah * bh - p) + ah * bl) + al * bh;
  rest = rest + al * bl;
  return vec2(p, rest);
}

// Boldo and Melquiond 2008, by a sum that is rounded to odd. Numbers far from the ends of the range.
float fma_of(float a, float b, float c) {
  precise float plain = FUSED ? fma(a, b, c) : a * b + c;
  if (FUSED || !(abs(plain) < 1e30)) return plain;
  const vec2 u = two_product(a, b), t = two_sum(c, u.y), v = two_sum(u.x, t.x), rest = two_sum(t.y, v.y);
  uint odd = floatBitsToUint(rest.x);
  if (rest.y != 0.0 && (odd & 1u) == 0u) odd += (rest.x < 0.0) == (rest.y < 0.0) ? 1u : 0xffffffffu;
  precise float result = v.x + uintBitsToFloat(odd);
  return result;
}

#endif
