// act(gate) * up, or act(gate) alone [rows, width]. The tanh GELU takes and gives half precision, as ggml's table does.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "half.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const int ACTIVATION = 0;  // ops/gate.py: SILU, GELU_TANH, SIGMOID, GELU_ERF, RELU
layout(constant_id = 2) const bool HAS_UP = true;

float gelu_tanh_of(float x) {
  const float half_x = rounded_to_half(x);
  precise float cube = 0.044715 * half_x * half_x + 1.0;
  precise float inner = 0.79788456080286535588 * half_x * cube;
  precise float y = 0.5 * half_x * (1.0 + tanh_of(inner));
  return x <= -10.0 ? 0.0 : x >= 10.0 ? x : rounded_to_half(y);
}

// x times the normal distribution function, which is 1 - h for x > 0 and h for x < 0: h = erfc(|x| / sqrt 2) / 2 =
// e^(-x^2 / 2) t P(t) with t = 1 / (1 + 0.3 |x|), as in Abramowitz and Stegun 7.1.26 with more terms.
float gelu_erf_of(float x) {
  const float magnitude = min(abs(x), 40.0);  // there h is 0, and the product with it stays finite
  const float t = quotient(1.0, fma_of(0.3, magnitude, 1.0));
  precise float p = 0.0361950286;
  p = fma_of(p, t, -0.159378991);
  p = fma_of(p, t, 0.210119471);
  p = fma_of(p, t, -0.0571682751);
  p = fma_of(p, t, 0.1304169);
  p = fma_of(p, t, 0.0993470028);
  p = fma_of(p, t, 0.120845549);
  p = fma_of(p, t, 0.119623259);
  precise float exponent = magnitude * magnitude * -0.5;
  precise float h = exp_of(exponent) * (p * t);
  precise float y = max(x, 0.0) - magnitude * h;
  return is_nan(x) ? x : y;
}

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer Gate { float gate[]; };
layout(std430, set = 0, binding = 2) readonly buffer Up { float up[]; };
layout(std430, set = 0, binding = 3) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint width;
};

void main() {
  const uint row = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
  if (int(row) >= live[axis] || i >= width) return;
  const uint at = row * width + i;
  const float x = gate[at];
  precise float y = x < 0.0 ? 0.0 : x;
  if (ACTIVATION == 0) y = silu_of(x);
  if (ACTIVATION == 1) y = gelu_tanh_of(x);
  if (ACTIVATION == 2) y = sigmoid_of(x);
  if (ACTIVATION == 3) y = gelu_erf_of(x);
  if (HAS_UP) y = y * up[at];
  result[at] = y;
}
