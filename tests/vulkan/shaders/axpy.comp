#version 450
// y = a * x + y over the live values, `a` a specialization constant; for tests of the layer.
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const float a = 1.0;
layout(constant_id = 2) const bool negate = false;
layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) restrict buffer Y { float y[]; };
layout(push_constant) uniform Push { uint n; float extra; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < n) y[i] += (negate ? -a : a) * x[i] + extra;
}
