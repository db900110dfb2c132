// The Walsh-Hadamard transform of blocks of BLOCK values, a workgroup for each: sums and differences of values 1, 2, 4, ...
// apart. Heads of a row [first, second, size] are read as [second, first, size]; signs are factors before or after.
#version 450

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BLOCK = 1024;
layout(constant_id = 2) const bool SIGNED = true;
layout(constant_id = 3) const bool SIGNS_AFTER = false;

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 2) readonly buffer Signs { float signs[]; };
layout(std430, set = 0, binding = 3) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint width, first, second;
  float by;
};

shared float values[BLOCK];

void main() {
  const uint row = gl_WorkGroupID.y, begin = gl_WorkGroupID.x * BLOCK, t = gl_LocalInvocationID.x;
  if (int(row) >= live[axis]) return;
  const uint size = width / (first * second);
  for (uint i = t; i < BLOCK; i += gl_WorkGroupSize.x) {
    const uint head = (begin + i) / size, part = (begin + i) % size;
    const float value = x[row * width + (head % first * second + head / first) * size + part];
    values[i] = SIGNED && !SIGNS_AFTER ? value * signs[begin + i] : value;
  }
  for (uint apart = 1; apart < BLOCK; apart *= 2) {
    barrier();
    for (uint i = t; i < BLOCK / 2; i += gl_WorkGroupSize.x) {
      const uint at = i / apart * 2 * apart + i % apart;
      const float a = values[at], b = values[at + apart];
      precise float sum = a + b, difference = a - b;
      values[at] = sum;
      values[at + apart] = difference;
    }
  }
  barrier();
  for (uint i = t; i < BLOCK; i += gl_WorkGroupSize.x) {
    precise float value = values[i] * by;
    result[row * width + begin + i] = SIGNED && SIGNS_AFTER ? value * signs[begin + i] : value;
  }
}
