// The second: e^(score - largest) in place of the scores, and the sum of each SUMMED_POSITIONS of them where the ranges'
// largest end. A workgroup has as many positions of a head of a row.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KEYS = 128;
layout(constant_id = 2) const uint RANGES = 1;
layout(constant_id = 3) const uint STRIDE = 130;

#include "math.glsl"
#include "attention_order.glsl"

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer Scores { float scores[]; };
layout(std430, set = 0, binding = 2) readonly buffer Positions { int positions[]; };
layout(std430, set = 0, binding = 3) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint heads;
  int window;
};

shared float largest[gl_WorkGroupSize.x];
shared float weight[SUMMED_POSITIONS];
shared float lanes[LANES];

int first_attended(int at) { return window > 0 && at >= window ? at - window + 1 : 0; }

void main() {
  const uint row = gl_WorkGroupID.z, t = gl_LocalInvocationID.x, begin = gl_WorkGroupID.x * SUMMED_POSITIONS;
  if (int(row) >= live[axis]) return;
  const int position = max(positions[row], 0), first = first_attended(position);
  const uint count = min(uint(position - first + 1), KEYS), from = (row * heads + gl_WorkGroupID.y) * STRIDE;
  if (begin >= count) return;
  const uint ranges = min(uint(position / int(RANGE) - first / int(RANGE) + 1), RANGES);
  float m = NOTHING;
  for (uint i = t; i < ranges; i += gl_WorkGroupSize.x) m = scores[from + KEYS + i] > m ? scores[from + KEYS + i] : m;
  largest[t] = m;
  for (uint apart = gl_WorkGroupSize.x / 2; apart > 0; apart /= 2) {
    barrier();
    if (t < apart) largest[t] = largest[t + apart] > largest[t] ? largest[t + apart] : largest[t];
  }
  barrier();
  const uint here = min(count - begin, SUMMED_POSITIONS);
  for (uint i = t; i < here; i += gl_WorkGroupSize.x) {
    const float e = exp_of(scores[from + begin + i] - largest[0]);
    weight[i] = e;
    result[from + begin + i] = e;
  }
  barrier();
  if (t < LANES) {
    precise float sum = 0.0;
    for (uint i = t; i < here; i += LANES) sum = sum + weight[i];
    lanes[t] = sum;
  }
  barrier();
  if (t == 0) result[from + KEYS + RANGES + gl_WorkGroupID.x] = SUM_OF_LANES(lanes, 0);
}
