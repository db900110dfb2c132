// softmax(scale * q.k) v over slot caches, a tile of queries by one workgroup: for passes that have tiles for a whole device.
// Three times over all ranges of positions, for the largest score, the sum of the weights, and the values; scores are made
// anew each time, so that no memory is needed for them, but once where there is one range.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KEY_DIM = 64;
layout(constant_id = 2) const uint VALUE_DIM = 64;
layout(constant_id = 3) const uint CELLS = 128;
layout(constant_id = 4) const uint HEADS = 1;
layout(constant_id = 5) const uint ROWS = 1;
layout(constant_id = 6) const uint SCORED = 1;
layout(constant_id = 7) const uint SUMMED = 1;
layout(constant_id = 8) const bool HAS_SOFTCAP = false;

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer Queries { float queries[]; };
layout(std430, set = 0, binding = 2) readonly buffer Keys { uint keys[]; };
layout(std430, set = 0, binding = 3) readonly buffer Values { uint values[]; };
layout(std430, set = 0, binding = 4) readonly buffer Slots { int slots[]; };
layout(std430, set = 0, binding = 5) readonly buffer Positions { int positions[]; };
layout(std430, set = 0, binding = 6) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis, slot_count;
  uint kv_heads, group;
  int window;
  float scale, softcap;
};

#include "pairs.glsl"
#include "attention.glsl"

shared float weight[(HEADS * ROWS + SUMMED - 1) / SUMMED * SUMMED * RANGE];

#include "attention_keys.glsl"
#include "attention_values.glsl"

shared float lanes[HEADS * ROWS * LANES], before[HEADS * ROWS * LANES];
shared float largest[HEADS * ROWS], inverse[HEADS * ROWS];
shared vec2 total[HEADS * ROWS], sums[SUM_GROUPS * SUMMED * PAIRS];  // sums: [queries, pairs]

// Where, counted from a query's first position, the weights begin that belong to another sum than those before them in this
// range; 0 when there are none.
uint boundary_in(uint q, int begin) {
  const int first = first_of(q), end = min(begin + int(RANGE) - 1, last_of(q));
  if (end < first) return 0;
  const uint boundary = uint(end - first) / SUMMED_POSITIONS * SUMMED_POSITIONS;
  return int(boundary) >= begin - first ? boundary : 0;
}

void find_largest(int begin) {
  for (uint i = gl_LocalInvocationID.x; i < rows * HEADS * LANES; i += gl_WorkGroupSize.x) {
    const uint q = i / LANES;
    float m = lanes[i];
    for (uint key = i % LANES; key < RANGE; key += LANES)
      if (attends(q, begin + int(key))) m = weight[q * RANGE + key] > m ? weight[q * RANGE + key] : m;
    lanes[i] = m;
  }
}

// Scores to e^(score - largest), which are added to the lanes; where a sum is whole its lanes go to `before`.
void sum_weights(int begin) {
  for (uint i = gl_LocalInvocationID.x; i < rows * HEADS * LANES; i += gl_WorkGroupSize.x) {
    const uint q = i / LANES, boundary = boundary_in(q, begin);
    const int first = first_of(q);
    precise float sum = lanes[i];
    bool apart = boundary == 0;
    // lanes are counted from the first position
    for (uint key = uint(first + int(i % LANES) - begin) % LANES; key < RANGE; key += LANES) {
      const int at = begin + int(key);
      if (!attends(q, at)) continue;
      const uint from_first = uint(at - first);
      if (!apart && from_first >= boundary) {
        before[i] = sum;
        sum = 0.0;
        apart = true;
      }
      const float e = exp_of(weight[q * RANGE + key] - largest[q]);
      weight[q * RANGE + key] = e;
      sum = sum + e;
    }
    if (!apart) before[i] = sum;
    lanes[i] = apart ? sum : 0.0;
  }
}

// Add what `sum_weights` put aside in a range.
void add_whole_sums(int begin) {
  for (uint q = gl_LocalInvocationID.x; q < rows * HEADS; q += gl_WorkGroupSize.x)
    if (boundary_in(q, begin) > 0) total[q] = sum_of_pairs(total[q], vec2(SUM_OF_LANES(before, q * LANES), 0.0));
}

void sum_values(int begin) {
  const bool full = attended_by_all(begin);
  for (uint i = gl_LocalInvocationID.x; i < SUM_GROUPS * PAIRS; i += gl_WorkGroupSize.x) {
    const uint q = i / PAIRS * SUMMED, pair = i % PAIRS;
    if (q >= rows * HEADS) continue;
    for (uint chunk = 0; chunk < CHUNKS; chunk++) {
      vec2 s[SUMMED];
      sum_chunk(q, pair, chunk, begin, full, s);
      [[unroll]] for (uint j = 0; j < SUMMED; j++) {
        precise vec2 sum = sums[(q + j) * PAIRS + pair] + s[j];
        sums[(q + j) * PAIRS + pair] = sum;
      }
    }
  }
}

void take_weights(int begin, bool one) {
  for (uint i = gl_LocalInvocationID.x; i < rows * HEADS * RANGE; i += gl_WorkGroupSize.x) {
    const uint q = i / RANGE;
    precise float w = MASKED;
    if (attends(q, begin + int(i % RANGE))) {
      w = (one ? weight[i] : exp_of(weight[i] - largest[q])) * inverse[q];
      w = rounded_to_half(w);
    }
    weight[i] = w;
  }
}

// Between two sweeps.
void conclude(uint sweep, int last) {
  if (sweep == 1) add_whole_sums(last);
  for (uint q = gl_LocalInvocationID.x; q < rows * HEADS; q += gl_WorkGroupSize.x) {
    if (sweep == 0) {
      float m = NOTHING;
      for (uint lane = 0; lane < LANES; lane++) m = lanes[q * LANES + lane] > m ? lanes[q * LANES + lane] : m;
      largest[q] = m;
      for (uint lane = 0; lane < LANES; lane++) lanes[q * LANES + lane] = 0.0;
      total[q] = vec2(0.0);
    } else if (sweep == 1) {
      inverse[q] = quotient_of_pairs(vec2(1.0, 0.0), sum_of_pairs(total[q], vec2(SUM_OF_LANES(lanes, q * LANES), 0.0)));
    }
  }
}

void main() {
  if (!lead()) return;
  take_queries();
  for (uint i = gl_LocalInvocationID.x; i < SUM_GROUPS * SUMMED * PAIRS; i += gl_WorkGroupSize.x) sums[i] = vec2(0.0);
  for (uint i = gl_LocalInvocationID.x; i < rows * HEADS * LANES; i += gl_WorkGroupSize.x) lanes[i] = NOTHING;
  const int step = int(RANGE), start = low / step * step, last = high / step * step;
  const bool one = start == last;
  // Barriers stand where all sweeps meet them, and what a sweep does is written once: that is compiled sooner.
  for (uint sweep = 0; sweep < 3; sweep++) {
    for (int begin = start; begin <= last; begin += step) {
      barrier();
      if (sweep == 1 && begin > start) add_whole_sums(begin - step);
      if (sweep == 0 || !one) score(begin);
      barrier();
      if (sweep == 0) find_largest(begin);
      if (sweep == 1) sum_weights(begin);
      if (sweep == 2) take_weights(begin, one);
      barrier();
      if (sweep == 2) sum_values(begin);
    }
    barrier();
    conclude(sweep, last);
  }
  for (uint i = gl_LocalInvocationID.x; i < rows * HEADS * PAIRS; i += gl_WorkGroupSize.x) {
    const uint at = head_of(i / PAIRS) * VALUE_DIM + i % PAIRS * 2;
    result[at] = sums[i].x;
    if (i % PAIRS * 2 + 1 < VALUE_DIM) result[at + 1] = sums[i].y;
  }
}
