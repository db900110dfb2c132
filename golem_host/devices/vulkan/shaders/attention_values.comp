// The third: sums of weight * value over each chunk of positions that a row attends, out [rows, heads, CHUNKS_OF_ROW,
// VALUE_DIM]. A workgroup of column x takes every (number of columns)th range of a tile.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint VALUE_DIM = 64;
layout(constant_id = 2) const uint CELLS = 128;
layout(constant_id = 3) const uint HEADS = 1;
layout(constant_id = 4) const uint ROWS = 1;
layout(constant_id = 5) const uint SUMMED = 1;
layout(constant_id = 6) const uint KEYS = 128;
layout(constant_id = 7) const uint RANGES = 1;
layout(constant_id = 8) const uint STRIDE = 130;
layout(constant_id = 9) const uint CHUNKS_OF_ROW = 2;

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer Weights { float weights[]; };
layout(std430, set = 0, binding = 2) readonly buffer Values { uint values[]; };
layout(std430, set = 0, binding = 3) readonly buffer Slots { int slots[]; };
layout(std430, set = 0, binding = 4) readonly buffer Positions { int positions[]; };
layout(std430, set = 0, binding = 5) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis, slot_count;
  uint kv_heads, group;
  int window;
};

#include "half.glsl"
#include "math.glsl"
#include "pairs.glsl"
#include "attention.glsl"

shared float weight[(HEADS * ROWS + SUMMED - 1) / SUMMED * SUMMED * RANGE];

#include "attention_values.glsl"

shared float inverse[HEADS * ROWS];

void main() {
  if (!lead()) return;
  for (uint q = gl_LocalInvocationID.x; q < rows * HEADS; q += gl_WorkGroupSize.x) {
    const uint sums = (uint(last_of(q) - first_of(q)) + SUMMED_POSITIONS) / SUMMED_POSITIONS;
    const uint from = head_of(q) * STRIDE + KEYS + RANGES;
    vec2 total = vec2(0.0);
    for (uint i = 0; i < sums; i++) total = sum_of_pairs(total, vec2(weights[from + i], 0.0));
    inverse[q] = quotient_of_pairs(vec2(1.0, 0.0), total);
  }
  const int step = int(gl_NumWorkGroups.x * RANGE);
  for (int begin = (low / int(RANGE) + int(gl_WorkGroupID.x)) * int(RANGE); begin <= high; begin += step) {
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < rows * HEADS * RANGE; i += gl_WorkGroupSize.x) {
      const uint q = i / RANGE;
      const int at = begin + int(i % RANGE);
      precise float w = MASKED;
      if (attends(q, at)) {
        w = weights[head_of(q) * STRIDE + uint(at - first_of(q))] * inverse[q];
        w = rounded_to_half(w);
      }
      weight[i] = w;
    }
    barrier();
    const bool full = attended_by_all(begin);
    for (uint i = gl_LocalInvocationID.x; i < CHUNKS * SUM_GROUPS * PAIRS; i += gl_WorkGroupSize.x) {
      const uint chunk = i / (SUM_GROUPS * PAIRS), q = i % (SUM_GROUPS * PAIRS) / PAIRS * SUMMED, pair = i % PAIRS;
      if (q >= rows * HEADS) continue;
      vec2 s[SUMMED];
      sum_chunk(q, pair, chunk, begin, full, s);
      const int from = begin + int(chunk * CHUNK);
      [[unroll]] for (uint j = 0; j < SUMMED; j++) {
        if (q + j >= rows * HEADS || from > last_of(q + j) || from + int(CHUNK) <= first_of(q + j)) continue;
        const uint of_row = uint(from / int(CHUNK) - first_of(q + j) / int(CHUNK));
        const uint to = (head_of(q + j) * CHUNKS_OF_ROW + of_row) * VALUE_DIM + 2 * pair;
        result[to] = s[j].x;
        if (2 * pair + 1 < VALUE_DIM) result[to + 1] = s[j].y;
      }
    }
  }
}
