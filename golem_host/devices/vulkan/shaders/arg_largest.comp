// Where the first largest of the first `count` values of a row [rows, width] is, whose block maxima are given: out
// [rows]; -1 where they are not all finite. A workgroup has a row.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BLOCK = 512;

#include "ordered.glsl"

layout(std430, set = 0, binding = 0) writeonly buffer Out { int result[]; };
layout(std430, set = 0, binding = 1) readonly buffer X { uint x[]; };
layout(std430, set = 0, binding = 2) readonly buffer Maxima { uint maxima[]; };
layout(std430, set = 0, binding = 3) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint width, count, blocks;
};

void main() {
  const uint row = gl_WorkGroupID.x, t = gl_LocalInvocationID.x;
  if (int(row) >= live[axis]) return;
  uvec2 mine = uvec2(0u, 0xffffffffu);
  for (uint b = t; b < blocks; b += gl_WorkGroupSize.x) {
    const uvec2 each = uvec2(ordered(maxima[row * blocks + b]), b);
    if (before(each, mine)) mine = each;
  }
  const uvec2 block = best(mine);
  const uint first = block.y * BLOCK;
  mine = uvec2(0u, 0xffffffffu);
  for (uint i = first + t; i < min(first + BLOCK, count); i += gl_WorkGroupSize.x) {
    const uvec2 each = uvec2(ordered(x[row * width + i]), i);
    if (before(each, mine)) mine = each;
  }
  const uvec2 found = best(mine);
  if (t == 0u) result[row] = block.x == NOT_FINITE ? -1 : int(found.y);
}
