// cap * tanh(x / cap) [rows, width].
#version 450
#extension GL_GOOGLE_include_directive : require
#include "math.glsl"

layout(local_size_x_id = 0) in;

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 2) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint width;
  float cap;
};

void main() {
  const uint row = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
  if (int(row) >= live[axis] || i >= width) return;
  const uint at = row * width + i;
  result[at] = cap * tanh_of(quotient(x[at], cap));
}
