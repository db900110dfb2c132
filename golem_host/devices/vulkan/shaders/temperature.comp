// x * (1 + strength * log(1 + position / period)) [rows, width], position [rows], a division of integers.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "math.glsl"

layout(local_size_x_id = 0) in;

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 2) readonly buffer Positions { int positions[]; };
layout(std430, set = 0, binding = 3) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint width, period;
  float strength;
};

void main() {
  const uint row = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
  if (int(row) >= live[axis] || i >= width) return;
  const uint at = row * width + i;
  precise float factor = 1.0 + strength * log_of(uint(positions[row]) / period + 1);
  result[at] = x[at] * factor;
}
