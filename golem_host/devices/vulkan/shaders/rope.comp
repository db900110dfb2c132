// x [rows, heads, head_dim]: the first 2 * pairs values of each head turned by angles [rows, pairs, 2], the rest copied.
// A thread takes a pair, or a value of the rest.
#version 450

layout(local_size_x_id = 0) in;

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 2) readonly buffer Angles { vec2 angles[]; };
layout(std430, set = 0, binding = 3) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint heads, head_dim, pairs;
  int neox;  // pairs (i, i + pairs) instead of (2i, 2i + 1)
};

void main() {
  const uint row = gl_WorkGroupID.y, items = head_dim - pairs, head = gl_GlobalInvocationID.x / items;
  const uint item = gl_GlobalInvocationID.x % items, at = (row * heads + head) * head_dim;
  if (int(row) >= live[axis] || head >= heads) return;
  if (item >= pairs) {
    result[at + pairs + item] = x[at + pairs + item];
    return;
  }
  const uint first = at + (neox != 0 ? item : 2 * item), second = first + (neox != 0 ? pairs : 1);
  const float a = x[first], b = x[second];
  const vec2 angle = angles[row * pairs + item];
  precise float ac = a * angle.x, bs = b * angle.y, as = a * angle.y, bc = b * angle.x;
  result[first] = ac - bs;
  result[second] = as + bc;
}
