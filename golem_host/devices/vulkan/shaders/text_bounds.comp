// For each row the first row of its text and the one after its last: neighbouring rows with the same number are a text.
// out [rows, 2] from texts [rows].
#version 450

layout(local_size_x_id = 0) in;

layout(std430, set = 0, binding = 0) writeonly buffer Out { ivec2 result[]; };
layout(std430, set = 0, binding = 1) readonly buffer Texts { int texts[]; };
layout(std430, set = 0, binding = 2) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers { int axis; };

void main() {
  const int row = int(gl_GlobalInvocationID.x), count = live[axis];
  if (row >= count) return;
  const int text = texts[row];
  int first = row, end = row + 1;
  while (first > 0 && texts[first - 1] == text) first--;
  while (end < count && texts[end] == text) end++;
  result[row] = ivec2(first, end);
}
