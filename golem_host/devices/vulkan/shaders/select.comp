// out[m] = x[index[m]] [rows, width]; zeros for an index that is no live row of x.
#version 450

layout(local_size_x_id = 0) in;

layout(std430, set = 0, binding = 0) writeonly buffer Out { uint result[]; };
layout(std430, set = 0, binding = 1) readonly buffer X { uint x[]; };
layout(std430, set = 0, binding = 2) readonly buffer Index { int index[]; };
layout(std430, set = 0, binding = 3) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint width;
  int source;  // the axis of x
};

void main() {
  const uint row = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
  if (int(row) >= live[axis] || i >= width) return;
  const int from = index[row];
  result[row * width + i] = from >= 0 && from < live[source] ? x[uint(from) * width + i] : 0u;
}
