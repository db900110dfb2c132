// cos and sin of each pair's angle, out [rows, pairs, 2] from positions [rows] or [rows, 4]: what `RopeAngles.twin` computes.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "math.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool HAS_FACTORS = false;

layout(std430, set = 0, binding = 0) writeonly buffer Out { vec2 result[]; };
layout(std430, set = 0, binding = 1) readonly buffer Positions { int positions[]; };
layout(std430, set = 0, binding = 2) readonly buffer Factors { float factors[]; };
layout(std430, set = 0, binding = 3) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint pairs;
  float turn, scale, magnitude;          // turn: base^(-2 / dims)
  float extrapolation, ramp_low, ramp_width;  // YaRN; extrapolation 0 is off
  int axes;                              // 0: one position; 1: four, sectioned; 2: four, interleaved
  uint time, height, width, extra;       // pairs of each axis
};

uint axis_of(uint pair) {
  uint at = pair % (time + height + width + extra);
  if (axes == 2) return at < 3 * (at % 3 == 0 ? time : at % 3 == 1 ? height : width) ? at % 3 : 3;
  return at < time ? 0 : at < time + height ? 1 : at < time + height + width ? 2 : 3;
}

void main() {
  const uint row = gl_WorkGroupID.y, pair = gl_GlobalInvocationID.x;
  if (int(row) >= live[axis] || pair >= pairs) return;
  precise float theta = float(axes == 0 ? positions[row] : positions[4 * row + axis_of(pair)]);
  for (uint i = 0; i < pair; i++) theta = theta * turn;
  if (HAS_FACTORS) theta = quotient(theta, factors[pair]);
  precise float angle = scale * theta;
  if (extrapolation != 0.0) {
    precise float ramp = clamp(quotient(float(pair) - ramp_low, ramp_width), 0.0, 1.0);
    precise float mixed = (1.0 - ramp) * extrapolation;
    angle = angle * (1.0 - mixed) + theta * mixed;
  }
  result[row * pairs + pair] = cos_sin(angle) * magnitude;
}
