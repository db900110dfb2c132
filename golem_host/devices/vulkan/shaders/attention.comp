// softmax(scale * q.k) v over slot caches, for tiles of queries that read the same keys: neighbouring rows of one slot, of
// each of them some heads of one kv head.
//
// Positions are cut into ranges of RANGE from 0 on. Within a range: all scores, their largest, weights e^(score -
// largest), and sums over the range's chunks of CHUNK positions, which are added in order. Ranges are added in order
// (`merge.glsl`), here, or, where a row's ranges are shared between workgroups (PARTIAL), by attention_merge.comp. So
// every sum has an order that only positions decide; which rows share a tile, and who computes a range, leaves no trace.
// Queries are rounded to half precision as ggml does; weights are not, as in its flash attention.
//
// A workgroup of column x takes every (number of columns)th range. The row of z leads a tile when it begins one: when it
// does not go on where the row before it is, or its position is a multiple of ROWS.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KEY_DIM = 64;
layout(constant_id = 2) const uint VALUE_DIM = 64;
layout(constant_id = 3) const uint CELLS = 128;
layout(constant_id = 4) const uint HEADS = 1;   // of a row's queries in a tile
layout(constant_id = 5) const uint ROWS = 1;    // of a tile at most
layout(constant_id = 6) const uint SCORED = 1;  // queries whose scores with one key a thread sums together
layout(constant_id = 7) const uint SUMMED = 1;  // queries whose sums of one pair of value dimensions it sums together
layout(constant_id = 8) const bool PARTIAL = false;
layout(constant_id = 9) const bool APART = false;  // chunks are summed by different threads

#include "cells.glsl"
#include "half.glsl"
#include "merge.glsl"

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };  // PARTIAL: [rows, heads, ranges, 2 + value dim]
layout(std430, set = 0, binding = 1) readonly buffer Queries { float queries[]; };
layout(std430, set = 0, binding = 2) readonly buffer Keys { uint keys[]; };
layout(std430, set = 0, binding = 3) readonly buffer Values { uint values[]; };
layout(std430, set = 0, binding = 4) readonly buffer Slots { int slots[]; };
layout(std430, set = 0, binding = 5) readonly buffer Positions { int positions[]; };
layout(std430, set = 0, binding = 6) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis, slot_count;
  uint kv_heads, group;  // group: heads of a kv head
  uint ranges;           // PARTIAL: that a row may have
  int window;
  float scale, softcap;
};

const uint CHUNK = 32, CHUNKS = RANGE / CHUNK, LANES = 16;
const uint SCORE_GROUPS = (HEADS * ROWS + SCORED - 1) / SCORED, SUM_GROUPS = (HEADS * ROWS + SUMMED - 1) / SUMMED;
const uint QUERIES = SCORE_GROUPS * SCORED > SUM_GROUPS * SUMMED ? SCORE_GROUPS * SCORED : SUM_GROUPS * SUMMED;
const uint KEY_WORDS = (KEY_DIM + 1) / 2, VALUE_WORDS = (VALUE_DIM + 1) / 2, QUADS = (KEY_DIM + 3) / 4;
const float MASKED = -1.0;  // in place of a weight

shared vec4 query[QUERIES * QUADS];
shared vec4 weight[QUERIES * RANGE / 4];  // scores, then weights, of each query in turn
shared float lanes[QUERIES * LANES];
shared float largest[QUERIES], total[QUERIES];           // over the ranges so far
shared float range_largest[QUERIES], range_total[QUERIES];
shared vec2 factors[QUERIES];
// PARTIAL and APART: [chunks, queries, pairs]; not PARTIAL: [queries, pairs], over the ranges so far
shared vec2 sums[PARTIAL ? (APART ? CHUNKS * SUM_GROUPS * SUMMED * VALUE_WORDS : 1) : SUM_GROUPS * SUMMED * VALUE_WORDS];

uint row, rows, kv_head, first_head;
int slot, position;  // of the tile's first row

int first_of(int at) { return window > 0 && at >= window ? at - window + 1 : 0; }
int position_of(uint q) { return position + int(q / HEADS); }
bool attends(uint q, int at) { return at >= first_of(position_of(q)) && at <= position_of(q); }

// Whether a query attends anything of a range.
bool has_part(uint q, int begin) { return begin <= position_of(q) && begin + int(RANGE) > first_of(position_of(q)); }

// The first value of a query's partial result of a range.
uint partial(uint q, int begin) {
  const uint of_row = uint(begin / int(RANGE) - first_of(position_of(q)) / int(RANGE));
  const uint head = (row + q / HEADS) * kv_heads * group + first_head + q % HEADS;
  return (head * ranges + of_row) * (2 + VALUE_DIM);
}

// A tile that begins with this row, if one does.
bool lead() {
  row = gl_WorkGroupID.z;
  const uint end = uint(max(live[axis], 0));
  if (row >= end) return false;
  slot = slots[row];
  position = positions[row];
  if (slot < 0 || slot >= slot_count || position < 0) return false;
  if (row > 0 && slots[row - 1] == slot && positions[row - 1] == position - 1 && position % int(ROWS) != 0) return false;
  rows = 1;
  while (rows < ROWS && row + rows < end && slots[row + rows] == slot && positions[row + rows] == position + int(rows) &&
         (position + int(rows)) % int(ROWS) != 0)
    rows++;
  const uint parts = group / HEADS;
  kv_head = gl_WorkGroupID.y / parts;
  first_head = kv_head * group + gl_WorkGroupID.y % parts * HEADS;
  return true;
}

void take_queries() {
  for (uint i = gl_LocalInvocationID.x; i < QUERIES * QUADS; i += gl_WorkGroupSize.x) {
    const uint q = i / QUADS, d = i % QUADS * 4;
    vec4 x = vec4(0.0);
    if (q < rows * HEADS) {
      const uint at = ((row + q / HEADS) * kv_heads * group + first_head + q % HEADS) * KEY_DIM + d;
      [[unroll]] for (uint j = 0; j < 4; j++)
        if (d + j < KEY_DIM) x[j] = rounded_to_half(queries[at + j]);
    }
    query[i] = x;
  }
}

void score(int begin, int low, int high) {
  const uint keys_begin = first_key(uint(slot) * kv_heads + kv_head, CELLS, KEY_WORDS);
  for (uint i = gl_LocalInvocationID.x; i < SCORE_GROUPS * RANGE; i += gl_WorkGroupSize.x) {
    const uint q = i / RANGE * SCORED, key = i % RANGE;
    const int at = begin + int(key);
    if (q >= rows * HEADS || at < low || at > high) continue;
    const uint word = keys_begin + key_word(uint(at) % CELLS, 0, KEY_WORDS);
    vec4 s[SCORED];
    [[unroll]] for (uint j = 0; j < SCORED; j++) s[j] = vec4(0.0);
    for (uint quad = 0; quad < QUADS; quad++) {
      const uint second = 2 * quad + 1 < KEY_WORDS ? keys[word + (2 * quad + 1) * BLOCK_CELLS] : 0u;
      const vec4 k = vec4(unpackHalf2x16(keys[word + 2 * quad * BLOCK_CELLS]), unpackHalf2x16(second));
      [[unroll]] for (uint j = 0; j < SCORED; j++) {
        precise vec4 sum = fma(query[(q + j) * QUADS + quad], k, s[j]);
        s[j] = sum;
      }
    }
    [[unroll]] for (uint j = 0; j < SCORED; j++) {
      precise float x = (s[j].x + s[j].y) + (s[j].z + s[j].w);
      x = x * scale;
      if (softcap > 0.0) x = softcap * tanh_of(x / softcap);
      weight[((q + j) * RANGE + key) / 4][key % 4] = x;
    }
  }
}

void weigh(int begin) {
  const uint items = rows * HEADS * LANES;
  for (uint i = gl_LocalInvocationID.x; i < items; i += gl_WorkGroupSize.x) {
    const uint q = i / LANES;
    float m = NOTHING;
    for (uint key = i % LANES; key < RANGE; key += LANES)
      if (attends(q, begin + int(key))) {
        const float x = weight[(q * RANGE + key) / 4][key % 4];
        m = x > m ? x : m;
      }
    lanes[i] = m;
  }
  barrier();
  for (uint q = gl_LocalInvocationID.x; q < rows * HEADS; q += gl_WorkGroupSize.x) {
    float m = lanes[q * LANES];
    for (uint lane = 1; lane < LANES; lane++) m = lanes[q * LANES + lane] > m ? lanes[q * LANES + lane] : m;
    range_largest[q] = m;
  }
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < items; i += gl_WorkGroupSize.x) {
    const uint q = i / LANES;
    precise float sum = 0.0;
    for (uint key = i % LANES; key < RANGE; key += LANES) {
      const uint at = (q * RANGE + key) / 4;
      float e = MASKED;
      if (attends(q, begin + int(key))) {
        e = exp_of(weight[at][key % 4] - range_largest[q]);
        sum = sum + e;
      }
      weight[at][key % 4] = e;
    }
    lanes[i] = sum;
  }
  barrier();
  for (uint q = gl_LocalInvocationID.x; q < rows * HEADS; q += gl_WorkGroupSize.x) {
    precise float sum = lanes[q * LANES];
    for (uint lane = 1; lane < LANES; lane++) sum = sum + lanes[q * LANES + lane];
    range_total[q] = sum;
    if (!PARTIAL && has_part(q, begin)) {
      float m = largest[q];
      factors[q] = merge_factors(m, range_largest[q]);
      largest[q] = m;
      total[q] = merged(total[q], sum, factors[q]);
    }
  }
}

// Sums of weight * value of one pair of dimensions over a chunk, for SUMMED queries from q on.
void sum_chunk(uint q, uint pair, uint chunk, int begin, int low, int high, bool full, out vec2 s[SUMMED]) {
  const uint values_begin = (uint(slot) * kv_heads + kv_head) * CELLS * VALUE_WORDS + pair;
  [[unroll]] for (uint j = 0; j < SUMMED; j++) s[j] = vec2(0.0);
  for (uint key = chunk * CHUNK; key < (chunk + 1) * CHUNK; key += 4) {
    const int at = begin + int(key);
    if (at + 3 < low || at > high) continue;
    [[unroll]] for (uint e = 0; e < 4; e++) {
      const vec2 v = unpackHalf2x16(values[values_begin + uint(at + int(e)) % CELLS * VALUE_WORDS]);
      [[unroll]] for (uint j = 0; j < SUMMED; j++) {
        const float w = weight[((q + j) * RANGE + key) / 4][e];
        precise vec2 sum = fma(vec2(w), v, s[j]);
        if (full || w >= 0.0 || is_nan(w)) s[j] = sum;
      }
    }
  }
}

void write_pair(uint at, uint pair, vec2 x) {
  result[at + 2 * pair] = x.x;
  if (2 * pair + 1 < VALUE_DIM) result[at + 2 * pair + 1] = x.y;
}

// All chunks of a pair by one thread.
void sum_values(int begin, int low, int high, bool full) {
  for (uint i = gl_LocalInvocationID.x; i < SUM_GROUPS * VALUE_WORDS; i += gl_WorkGroupSize.x) {
    const uint q = i / VALUE_WORDS * SUMMED, pair = i % VALUE_WORDS;
    if (q >= rows * HEADS) continue;
    vec2 s[SUMMED], chunk_sum[SUMMED];
    sum_chunk(q, pair, 0, begin, low, high, full, s);
    for (uint chunk = 1; chunk < CHUNKS; chunk++) {
      sum_chunk(q, pair, chunk, begin, low, high, full, chunk_sum);
      [[unroll]] for (uint j = 0; j < SUMMED; j++) {
        precise vec2 added = s[j] + chunk_sum[j];
        s[j] = added;
      }
    }
    [[unroll]] for (uint j = 0; j < SUMMED; j++) {
      if (q + j >= rows * HEADS || !has_part(q + j, begin)) continue;
      if (PARTIAL) {
        write_pair(partial(q + j, begin) + 2, pair, s[j]);
      } else {
        const uint at = (q + j) * VALUE_WORDS + pair;
        sums[at] = vec2(merged(sums[at].x, s[j].x, factors[q + j]), merged(sums[at].y, s[j].y, factors[q + j]));
      }
    }
  }
}

// Each chunk of a pair by another thread: for few queries.
void sum_values_apart(int begin, int low, int high, bool full) {
  const uint items = SUM_GROUPS * VALUE_WORDS, stride = SUM_GROUPS * SUMMED * VALUE_WORDS;
  for (uint i = gl_LocalInvocationID.x; i < CHUNKS * items; i += gl_WorkGroupSize.x) {
    const uint chunk = i / items, q = i % items / VALUE_WORDS * SUMMED, pair = i % VALUE_WORDS;
    if (q >= rows * HEADS) continue;
    vec2 s[SUMMED];
    sum_chunk(q, pair, chunk, begin, low, high, full, s);
    [[unroll]] for (uint j = 0; j < SUMMED; j++) sums[chunk * stride + (q + j) * VALUE_WORDS + pair] = s[j];
  }
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < rows * HEADS * VALUE_WORDS; i += gl_WorkGroupSize.x) {
    const uint q = i / VALUE_WORDS;
    if (!has_part(q, begin)) continue;
    precise vec2 s = sums[i];
    for (uint chunk = 1; chunk < CHUNKS; chunk++) s = s + sums[chunk * stride + i];
    write_pair(partial(q, begin) + 2, i % VALUE_WORDS, s);
  }
}

void main() {
  if (!lead()) return;
  take_queries();
  const int high = position + int(rows) - 1, low = first_of(position);
  if (!PARTIAL) {
    for (uint i = gl_LocalInvocationID.x; i < rows * HEADS * VALUE_WORDS; i += gl_WorkGroupSize.x) sums[i] = vec2(0.0);
    for (uint q = gl_LocalInvocationID.x; q < rows * HEADS; q += gl_WorkGroupSize.x) {
      largest[q] = NOTHING;
      total[q] = 0.0;
    }
  }
  const int step = int(gl_NumWorkGroups.x * RANGE);
  for (int begin = (low / int(RANGE) + int(gl_WorkGroupID.x)) * int(RANGE); begin <= high; begin += step) {
    barrier();
    score(begin, low, high);
    barrier();
    weigh(begin);
    barrier();
    const bool full = begin >= first_of(high) && begin + int(RANGE) - 1 <= position;
    if (APART) sum_values_apart(begin, low, high, full);
    else sum_values(begin, low, high, full);
    if (PARTIAL)
      for (uint q = gl_LocalInvocationID.x; q < rows * HEADS; q += gl_WorkGroupSize.x)
        if (has_part(q, begin)) {
          result[partial(q, begin)] = range_largest[q];
          result[partial(q, begin) + 1] = range_total[q];
        }
  }
  if (PARTIAL) return;
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < rows * HEADS * VALUE_WORDS; i += gl_WorkGroupSize.x) {
    const uint q = i / VALUE_WORDS, head = (row + q / HEADS) * kv_heads * group + first_head + q % HEADS;
    write_pair(head * VALUE_DIM, i % VALUE_WORDS, sums[i] / total[q]);
  }
}
