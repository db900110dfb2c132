// What Vulkan leaves open: whether fma rounds once, x[0] * x[1] + x[2], whose product does not fit a float; and what halves
// below 2^-14 become, those of the bits of x[4].
#version 450

layout(local_size_x_id = 0) in;

layout(std430, set = 0, binding = 0) buffer X { float x[]; };

void main() {
  precise float y = fma(x[0], x[1], x[2]);
  const vec2 small = unpackHalf2x16(floatBitsToUint(x[4]));
  if (gl_GlobalInvocationID.x != 0u) return;
  x[3] = y;
  x[5] = small.x;
  x[6] = small.y;
}
