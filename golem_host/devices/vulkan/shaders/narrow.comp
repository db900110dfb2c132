// Values first .. first + size of the last axis: out [rows, width = outer * size] from x [rows, outer, n].
#version 450

layout(local_size_x_id = 0) in;

layout(std430, set = 0, binding = 0) writeonly buffer Out { uint result[]; };
layout(std430, set = 0, binding = 1) readonly buffer X { uint x[]; };
layout(std430, set = 0, binding = 2) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint width;
  uint size, n, first;
};

void main() {
  const uint row = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
  if (int(row) >= live[axis] || i >= width) return;
  result[row * width + i] = x[(row * (width / size) + i / size) * n + first + i % size];
}
