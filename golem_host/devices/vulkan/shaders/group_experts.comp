// Columns (row * used + slot) by the expert they chose, so that each expert's matrix is read once for a group of at most
// MOST columns. One workgroup. The result, in int32: the number of groups, where the order of columns begins, two
// unused; for each group its expert, its first place in that order, its columns; the order; room for counting.
// Columns whose expert does not exist come last, in groups of an expert whose number is that of all experts.
#version 450

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 128u;
layout(constant_id = 1) const int MOST = 8;

layout(std430, set = 0, binding = 0) readonly buffer Routes { int routes[]; };  // [rows, used, 2]
layout(std430, set = 0, binding = 1) readonly buffer Live { int live[]; };
layout(std430, set = 0, binding = 2) coherent buffer Out { int result[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint rows;        // that there may be
  uint used;
  int experts;
  uint max_groups;
};

shared int groups_before[LANES];
shared int columns_before[LANES];

int expert_of(uint column) {
  const int expert = routes[2u * column];
  return expert >= 0 && expert < experts ? expert : experts;
}

int groups_of(int columns) { return (columns + MOST - 1) / MOST; }

void meet() {
  memoryBarrierBuffer();
  barrier();
}

void main() {
  const uint lane = gl_LocalInvocationID.x;
  const uint columns = min(uint(max(live[axis], 0)), rows) * used;
  const uint order = 4u + 3u * max_groups, counts = order + rows * used;
  for (uint e = lane; e <= uint(experts); e += LANES) result[counts + e] = 0;
  meet();
  for (uint c = lane; c < columns; c += LANES) atomicAdd(result[counts + expert_of(c)], 1);
  meet();
  // Each lane takes neighbouring experts; what lanes before it have decides where it begins.
  const uint each = (uint(experts) + LANES) / LANES, begin = lane * each, end = min(begin + each, uint(experts) + 1u);
  int groups = 0, place = 0;
  for (uint e = begin; e < end; e++) {
    const int count = result[counts + e];
    groups += groups_of(count);
    place += count;
  }
  groups_before[lane] = groups;
  columns_before[lane] = place;
  barrier();
  groups = place = 0;
  for (uint l = 0u; l < lane; l++) {
    groups += groups_before[l];
    place += columns_before[l];
  }
  for (uint e = begin; e < end; e++) {
    const int count = result[counts + e];
    result[counts + e] = place;
    for (int at = 0; at < count; at += MOST, groups++) {
      const uint to = 4u + 3u * uint(groups);
      result[to] = int(e);
      result[to + 1u] = place + at;
      result[to + 2u] = min(MOST, count - at);
    }
    place += count;
  }
  if (lane == LANES - 1u) {
    result[0] = groups;
    result[1] = int(order);
  }
  meet();
  for (uint c = lane; c < columns; c += LANES) result[order + atomicAdd(result[counts + expert_of(c)], 1)] = int(c);
}
