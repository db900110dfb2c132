// The sum over slots of weight * y [rows, used, width], in their order; routes [rows, used, 2] hold the weights as bits.
#version 450

layout(local_size_x_id = 0) in;

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer Y { float y[]; };
layout(std430, set = 0, binding = 2) readonly buffer Routes { int routes[]; };
layout(std430, set = 0, binding = 3) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint width;
  uint used;
};

void main() {
  const uint row = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
  if (int(row) >= live[axis] || i >= width) return;
  precise float sum = 0.0;
  for (uint slot = 0; slot < used; slot++) {
    const uint at = row * used + slot;
    precise float part = intBitsToFloat(routes[2 * at + 1]) * y[at * width + i];
    sum = slot == 0 ? part : sum + part;
  }
  result[row * width + i] = sum;
}
