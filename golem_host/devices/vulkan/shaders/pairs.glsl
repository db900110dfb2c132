// Numbers as pairs x + y, y at most half a unit of x in the last place: sums that the processor takes in double.
#include "fused.glsl"

// a + b of |a| >= |b| exactly (Dekker 1971).
vec2 fast_two_sum(float a, float b) {
  precise float s = a + b, rest = b - (s - a);
  return vec2(s, rest);
}

// Within 2^-46 of the larger.
vec2 sum_of_pairs(vec2 a, vec2 b) {
  const vec2 s = two_sum(a.x, b.x);
  precise float rest = s.y + (a.y + b.y);
  return fast_two_sum(s.x, rest);
}

// Within 2^-46 of itself.
vec2 product_of_pairs(vec2 a, vec2 b) {
  const vec2 p = two_product(a.x, b.x);
  precise float rest = p.y + (a.x * b.y + a.y * b.x);
  return fast_two_sum(p.x, rest);
}
