// The last: the sums of a row's chunks, [rows, heads, CHUNKS_OF_ROW, VALUE_DIM], added in their order: out [rows, heads,
// VALUE_DIM]. A workgroup has a head of a row.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint VALUE_DIM = 64;
layout(constant_id = 2) const uint CHUNKS_OF_ROW = 2;

#include "attention_order.glsl"

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer Sums { float sums[]; };
layout(std430, set = 0, binding = 2) readonly buffer Positions { int positions[]; };
layout(std430, set = 0, binding = 3) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint heads;
  int window;
};

void main() {
  const uint row = gl_WorkGroupID.y, head = row * heads + gl_WorkGroupID.x;
  if (int(row) >= live[axis]) return;
  const int position = max(positions[row], 0), first = window > 0 && position >= window ? position - window + 1 : 0;
  const uint count = min(uint(position / int(CHUNK) - first / int(CHUNK) + 1), CHUNKS_OF_ROW);
  for (uint d = gl_LocalInvocationID.x; d < VALUE_DIM; d += gl_WorkGroupSize.x) {
    precise float s = 0.0;
    for (uint chunk = 0; chunk < count; chunk++) s = s + sums[(head * CHUNKS_OF_ROW + chunk) * VALUE_DIM + d];
    result[head * VALUE_DIM + d] = s;
  }
}
