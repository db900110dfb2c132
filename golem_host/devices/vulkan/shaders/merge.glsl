// How the result over one range of keys is added to the result over the ranges before it. A range gives the largest score
// m, the sum of weights e^(score - m), and for each value dimension the sum of weight * value; so does what came before.
#include "math.glsl"

const uint RANGE = 128;

#define NOTHING uintBitsToFloat(0xff800000u)  // -infinity: the largest score of no keys

// What the earlier ranges and this one are multiplied by; `largest` becomes the largest score of both.
vec2 merge_factors(inout float largest, float m) {
  const float before = largest;
  largest = m > before ? m : before;
  return vec2(exp_of(before - largest), exp_of(m - largest));
}

float merged(float before, float here, vec2 factors) {
  precise float kept = before * factors.x;
  return fma(here, factors.y, kept);
}
