// The sum of a value of every thread of a workgroup, in an order that only the number of threads decides (32 at least).

shared float sum_parts[gl_WorkGroupSize.x];
shared float sum_rest[gl_WorkGroupSize.x / 16];

float workgroup_sum(float x) {
  const uint t = gl_LocalInvocationID.x, kept = gl_WorkGroupSize.x / 16;
  sum_parts[t] = x;
  barrier();
  if (t < kept) {
    precise float s = sum_parts[t];
    for (uint i = 1; i < 16; i++) s = s + sum_parts[t + i * kept];
    sum_rest[t] = s;
  }
  barrier();
  precise float total = sum_rest[0];
  for (uint i = 1; i < kept; i++) total = total + sum_rest[i];
  return total;
}
