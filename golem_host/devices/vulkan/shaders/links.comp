// For each row of a pass, the row of the same slot before it and the one after it, -1 where there is none: out [rows, 2].
#version 450

layout(local_size_x_id = 0) in;

layout(std430, set = 0, binding = 0) writeonly buffer Out { ivec2 result[]; };
layout(std430, set = 0, binding = 1) readonly buffer Slots { int slots[]; };
layout(std430, set = 0, binding = 2) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers { int axis; };

void main() {
  const int row = int(gl_GlobalInvocationID.x), end = live[axis];
  if (row >= end) return;
  const int slot = slots[row];
  int before = row - 1, after = row + 1;
  while (before >= 0 && slots[before] != slot) before--;
  while (after < end && slots[after] != slot) after++;
  result[row] = ivec2(before, after < end ? after : -1);
}
