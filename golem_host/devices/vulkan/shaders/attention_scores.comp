// The first of the steps of attention whose rows are shared between workgroups by ranges of positions: all scores, from a
// row's first position on, and the largest of each range, out [rows, heads, STRIDE]: KEYS scores, then the ranges' largest.
// A workgroup of column x takes every (number of columns)th range of a tile.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KEY_DIM = 64;
layout(constant_id = 2) const uint CELLS = 128;
layout(constant_id = 3) const uint HEADS = 1;
layout(constant_id = 4) const uint ROWS = 1;
layout(constant_id = 5) const uint SCORED = 1;
layout(constant_id = 6) const uint KEYS = 128;
layout(constant_id = 7) const uint STRIDE = 130;
layout(constant_id = 8) const bool HAS_SOFTCAP = false;

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer Queries { float queries[]; };
layout(std430, set = 0, binding = 2) readonly buffer Keys { uint keys[]; };
layout(std430, set = 0, binding = 3) readonly buffer Slots { int slots[]; };
layout(std430, set = 0, binding = 4) readonly buffer Positions { int positions[]; };
layout(std430, set = 0, binding = 5) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis, slot_count;
  uint kv_heads, group;
  int window;
  float scale, softcap;
};

#include "attention.glsl"

shared float weight[HEADS * ROWS * RANGE];
shared float lanes[HEADS * ROWS * LANES];

#include "attention_keys.glsl"

void main() {
  if (!lead()) return;
  take_queries();
  const int step = int(gl_NumWorkGroups.x * RANGE);
  for (int begin = (low / int(RANGE) + int(gl_WorkGroupID.x)) * int(RANGE); begin <= high; begin += step) {
    barrier();
    score(begin);
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < rows * HEADS * LANES; i += gl_WorkGroupSize.x) {
      const uint q = i / LANES;
      float m = NOTHING;
      for (uint key = i % LANES; key < RANGE; key += LANES) {
        const int at = begin + int(key);
        if (!attends(q, at)) continue;
        const float x = weight[q * RANGE + key];
        result[head_of(q) * STRIDE + uint(at - first_of(q))] = x;
        m = x > m ? x : m;
      }
      lanes[i] = m;
    }
    barrier();
    for (uint q = gl_LocalInvocationID.x; q < rows * HEADS; q += gl_WorkGroupSize.x) {
      if (begin > last_of(q) || begin + int(RANGE) <= first_of(q)) continue;
      float m = NOTHING;
      for (uint lane = 0; lane < LANES; lane++) m = lanes[q * LANES + lane] > m ? lanes[q * LANES + lane] : m;
      result[head_of(q) * STRIDE + KEYS + uint(begin / int(RANGE) - first_of(q) / int(RANGE))] = m;
    }
  }
}
