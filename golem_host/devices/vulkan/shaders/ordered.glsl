// Floats, as their bits, as whole numbers in the same order: -0 is 0, infinities and NaN are above all others.

const uint NOT_FINITE = 0xffffffffu;

uint ordered(uint bits) {
  if ((bits & 0x7f800000u) == 0x7f800000u) return NOT_FINITE;
  if (bits == 0x80000000u) return 0x80000000u;
  return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

// The float's bits again; NaN for what was not finite.
uint unordered(uint number) {
  if (number == NOT_FINITE) return 0x7fc00000u;
  return (number & 0x80000000u) != 0u ? number ^ 0x80000000u : ~number;
}

// Of a number and its place the better: the larger number, or the same and an earlier place.
bool before(uvec2 a, uvec2 b) { return a.x > b.x || (a.x == b.x && a.y < b.y); }

shared uvec2 best_of_all[gl_WorkGroupSize.x];

// The best of what all threads have. The number of threads is a power of two.
uvec2 best(uvec2 mine) {
  const uint t = gl_LocalInvocationID.x;
  barrier();
  best_of_all[t] = mine;
  barrier();
  for (uint n = gl_WorkGroupSize.x / 2; n > 0; n /= 2) {
    if (t < n && before(best_of_all[t + n], best_of_all[t])) best_of_all[t] = best_of_all[t + n];
    barrier();
  }
  return best_of_all[0];
}
