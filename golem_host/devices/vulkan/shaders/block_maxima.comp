// The largest of every block of the first `count` values of a row [rows, width]: out [rows, blocks]; NaN for a block
// that is not all finite. A workgroup has a block.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BLOCK = 512;

#include "ordered.glsl"

layout(std430, set = 0, binding = 0) writeonly buffer Out { uint result[]; };
layout(std430, set = 0, binding = 1) readonly buffer X { uint x[]; };
layout(std430, set = 0, binding = 2) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint width, count, blocks;
};

void main() {
  const uint row = gl_WorkGroupID.y, block = gl_WorkGroupID.x, first = block * BLOCK;
  if (int(row) >= live[axis]) return;
  uint mine = 0u;
  for (uint i = first + gl_LocalInvocationID.x; i < min(first + BLOCK, count); i += gl_WorkGroupSize.x)
    mine = max(mine, ordered(x[row * width + i]));
  const uvec2 found = best(uvec2(mine, 0u));
  if (gl_LocalInvocationID.x == 0u) result[row * blocks + block] = unordered(found.x);
}
