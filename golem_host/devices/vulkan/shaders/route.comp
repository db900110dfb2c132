// The `used` largest of a row of router logits [rows, experts], ties by lower expert, NaN last, and what the outputs of
// those experts are multiplied with: out [rows, used, 2], an expert and the bits of its float32 weight (`ops/experts.py`).
// The first thread writes what a route's weight is made of, its logit, and later the weight.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const int WEIGHTING = 0;  // SOFTMAX, SOFTMAX_CHOSEN, SIGMOID
layout(constant_id = 2) const bool HAS_SCALE = false;

#include "math.glsl"
#include "ordered.glsl"
#include "sum.glsl"

layout(std430, set = 0, binding = 0) buffer Out { ivec2 result[]; };
layout(std430, set = 0, binding = 1) readonly buffer Logits { float logits[]; };
layout(std430, set = 0, binding = 2) readonly buffer Scales { float scales[]; };
layout(std430, set = 0, binding = 3) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint experts, used;
  float factor;
};

// A logit as a whole number in the same order, -0 and 0 the same, infinities at the ends and NaN at the bottom.
uint rank(float x) {
  const uint bits = floatBitsToUint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0u;
  if (bits == 0x80000000u) return 0x80000000u;
  return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

// The first expert after `last` in falling order.
uvec2 next_after(uvec2 last, bool any, uint at) {
  uvec2 mine = uvec2(0u, 0xffffffffu);
  for (uint i = gl_LocalInvocationID.x; i < experts; i += gl_WorkGroupSize.x) {
    const uvec2 each = uvec2(rank(logits[at + i]), i);
    if ((any || before(last, each)) && before(each, mine)) mine = each;
  }
  return best(mine);
}

void main() {
  const uint row = gl_WorkGroupID.x, t = gl_LocalInvocationID.x, at = row * experts;
  if (int(row) >= live[axis]) return;
  uvec2 chosen = uvec2(0u);
  float largest = 0.0, total = 0.0;
  for (uint slot = 0; slot < used; slot++) {
    chosen = next_after(chosen, slot == 0, at);
    const float logit = logits[at + chosen.y];
    if (slot == 0) largest = logit;
    precise float sum = total + exp_of(logit - largest);
    total = sum;
    if (t == 0) result[row * used + slot] = ivec2(int(chosen.y), floatBitsToInt(logit));
  }
  if (WEIGHTING == 0) {
    precise float sum = 0.0;
    for (uint i = t; i < experts; i += gl_WorkGroupSize.x) sum = sum + exp_of(logits[at + i] - largest);
    total = workgroup_sum(sum);
  }
  if (t != 0) return;
  for (uint slot = 0; slot < used; slot++) {
    const ivec2 route = result[row * used + slot];
    const float logit = intBitsToFloat(route.y);
    precise float by = factor;
    if (HAS_SCALE) by = factor * scales[route.x];
    precise float weight = WEIGHTING == 2 ? sigmoid_of(logit) : exp_of(logit - largest) / total;
    weight = weight * by;
    result[row * used + slot].y = floatBitsToInt(weight);
  }
}
