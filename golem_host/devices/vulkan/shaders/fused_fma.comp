// Whether fma rounds once: x[0] * x[1] + x[2], whose product does not fit a float.
#version 450

layout(local_size_x_id = 0) in;

layout(std430, set = 0, binding = 0) buffer X { float x[]; };

void main() {
  precise float y = fma(x[0], x[1], x[2]);
  if (gl_GlobalInvocationID.x == 0u) x[3] = y;
}
