// The sum of a pair of every thread of a workgroup, of a power of two of them.
#include "pairs.glsl"

shared vec2 sum_pairs[gl_WorkGroupSize.x];

vec2 workgroup_sum_of_pairs(vec2 x) {
  const uint t = gl_LocalInvocationID.x;
  barrier();  // the sum before this one has been read
  sum_pairs[t] = x;
  for (uint apart = gl_WorkGroupSize.x / 2u; apart > 0u; apart /= 2u) {
    barrier();
    if (t < apart) sum_pairs[t] = sum_of_pairs(sum_pairs[t], sum_pairs[t + apart]);
  }
  barrier();
  return sum_pairs[0];
}
