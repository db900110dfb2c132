// softmax(scale * q.k) v over the rows of a row's own text, at most WINDOW before and after it, in float32: q, k, v, out
// [rows, heads, dim], bounds [rows, 2] (text_bounds.comp). Positions are counted from the first row of a text on.
//
// They are cut into ranges of RANGE. Within a range: all scores, their largest, weights e^(score - largest), and sums over
// the range's chunks of CHUNK positions, which are added in order. So are the ranges. Every sum has an order that only
// positions decide; which rows share a tile leaves no trace.
//
// The row of z leads a tile when it is the first of its text or its position is a multiple of ROWS.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DIM = 32;
layout(constant_id = 2) const uint ROWS = 1;    // of a tile at most
layout(constant_id = 3) const uint SCORED = 1;  // queries whose scores with one key a thread sums together
layout(constant_id = 4) const uint SUMMED = 1;  // queries whose sums of one pair of value dimensions it sums together
layout(constant_id = 5) const int WINDOW = 0;   // 0: all

#include "math.glsl"

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer Queries { float queries[]; };
layout(std430, set = 0, binding = 2) readonly buffer Keys { float keys[]; };
layout(std430, set = 0, binding = 3) readonly buffer Values { float values[]; };
layout(std430, set = 0, binding = 4) readonly buffer Bounds { ivec2 bounds[]; };
layout(std430, set = 0, binding = 5) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint heads;
  float scale;
};

uint row, rows;
int text;        // its first row
int position;    // of the first query
int last;        // position of the text
int low, high;  // the first and the last position that the tile attends

int first_of(uint q) { return WINDOW == 0 ? 0 : max(0, position + int(q) - WINDOW); }
int last_of(uint q) { return WINDOW == 0 || last - position - int(q) <= WINDOW ? last : position + int(q) + WINDOW; }
uint result_row(uint q) { return (row + q) * heads + gl_WorkGroupID.y; }
float query_value(uint q, uint d) { return queries[result_row(q) * DIM + d]; }
uint key_base(int at) { return (uint(text + at) * heads + gl_WorkGroupID.y) * DIM; }

vec4 key_quad(uint base, uint quad) {
  vec4 key = vec4(0.0);
  [[unroll]] for (uint j = 0; j < 4; j++)
    if (4 * quad + j < DIM) key[j] = keys[base + 4 * quad + j];
  return key;
}

// A chunk's last positions may lie past the text: they weigh nothing, and are not read.
vec2 value_pair(int at, uint pair) {
  const uint from = key_base(min(at, high)) + 2 * pair;
  return vec2(values[from], 2 * pair + 1 < DIM ? values[from + 1] : 0.0);
}

bool lead() {
  row = gl_WorkGroupID.z;
  if (int(row) >= live[axis]) return false;
  text = bounds[row].x;
  const int end = bounds[row].y;
  position = int(row) - text;
  last = end - text - 1;
  if (position % int(ROWS) != 0) return false;
  rows = min(ROWS, uint(end) - row);
  low = first_of(0);
  high = last_of(rows - 1);
  return true;
}

const uint RANGE = 128, CHUNK = 32, CHUNKS = RANGE / CHUNK, LANES = 16;
const uint SCORE_GROUPS = (ROWS + SCORED - 1) / SCORED, SUM_GROUPS = (ROWS + SUMMED - 1) / SUMMED;
const uint QUERIES = SCORE_GROUPS * SCORED > SUM_GROUPS * SUMMED ? SCORE_GROUPS * SCORED : SUM_GROUPS * SUMMED;
const uint QUADS = (DIM + 3) / 4, PAIRS = (DIM + 1) / 2;
const float MASKED = -1.0;  // in place of a weight

shared vec4 query[QUERIES * QUADS];
shared vec4 weight[QUERIES * RANGE / 4];  // scores, then weights, of each query in turn
shared float lanes[QUERIES * LANES];
shared float largest[QUERIES], total[QUERIES];           // over the ranges so far
shared float range_largest[QUERIES], range_total[QUERIES];
shared vec2 factors[QUERIES];
shared vec2 sums[SUM_GROUPS * SUMMED * PAIRS];  // [queries, pairs], over the ranges so far

#define NOTHING uintBitsToFloat(0xff800000u)  // -infinity: the largest score of no keys

// What the earlier ranges and this one are multiplied by; `largest` becomes the largest score of both.
vec2 merge_factors(inout float largest, float m) {
  const float before = largest;
  largest = m > before ? m : before;
  return vec2(exp_of(before - largest), exp_of(m - largest));
}

float merged(float before, float here, vec2 factors) {
  precise float kept = before * factors.x;
  return fma(here, factors.y, kept);
}

bool attends(uint q, int at) { return at >= first_of(q) && at <= last_of(q); }

// Whether a query attends anything of a range.
bool has_part(uint q, int begin) { return begin <= last_of(q) && begin + int(RANGE) > first_of(q); }

void take_queries() {
  for (uint i = gl_LocalInvocationID.x; i < QUERIES * QUADS; i += gl_WorkGroupSize.x) {
    const uint q = i / QUADS, d = i % QUADS * 4;
    vec4 x = vec4(0.0);
    [[unroll]] for (uint j = 0; j < 4; j++)
      if (q < rows && d + j < DIM) x[j] = query_value(q, d + j);
    query[i] = x;
  }
}

void score(int begin) {
  for (uint i = gl_LocalInvocationID.x; i < SCORE_GROUPS * RANGE; i += gl_WorkGroupSize.x) {
    const uint q = i / RANGE * SCORED, key = i % RANGE;
    const int at = begin + int(key);
    if (q >= rows || at < low || at > high) continue;
    const uint base = key_base(at);
    vec4 s[SCORED];
    [[unroll]] for (uint j = 0; j < SCORED; j++) s[j] = vec4(0.0);
    for (uint quad = 0; quad < QUADS; quad++) {
      const vec4 k = key_quad(base, quad);
      [[unroll]] for (uint j = 0; j < SCORED; j++) {
        precise vec4 sum = fma(query[(q + j) * QUADS + quad], k, s[j]);
        s[j] = sum;
      }
    }
    [[unroll]] for (uint j = 0; j < SCORED; j++) {
      precise float x = (s[j].x + s[j].y) + (s[j].z + s[j].w);
      x = x * scale;
      weight[((q + j) * RANGE + key) / 4][key % 4] = x;
    }
  }
}

void weigh(int begin) {
  const uint items = rows * LANES;
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
  for (uint q = gl_LocalInvocationID.x; q < rows; q += gl_WorkGroupSize.x) {
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
  for (uint q = gl_LocalInvocationID.x; q < rows; q += gl_WorkGroupSize.x) {
    precise float sum = lanes[q * LANES];
    for (uint lane = 1; lane < LANES; lane++) sum = sum + lanes[q * LANES + lane];
    range_total[q] = sum;
    if (has_part(q, begin)) {
      float m = largest[q];
      factors[q] = merge_factors(m, range_largest[q]);
      largest[q] = m;
      total[q] = merged(total[q], sum, factors[q]);
    }
  }
}

// Sums of weight * value of one pair of dimensions over a chunk, for SUMMED queries from q on.
void sum_chunk(uint q, uint pair, uint chunk, int begin, bool full, out vec2 s[SUMMED]) {
  [[unroll]] for (uint j = 0; j < SUMMED; j++) s[j] = vec2(0.0);
  for (uint key = chunk * CHUNK; key < (chunk + 1) * CHUNK; key += 4) {
    const int at = begin + int(key);
    if (at + 3 < low || at > high) continue;
    [[unroll]] for (uint e = 0; e < 4; e++) {
      const vec2 v = value_pair(at + int(e), pair);
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
  if (2 * pair + 1 < DIM) result[at + 2 * pair + 1] = x.y;
}

void sum_values(int begin, bool full) {
  for (uint i = gl_LocalInvocationID.x; i < SUM_GROUPS * PAIRS; i += gl_WorkGroupSize.x) {
    const uint q = i / PAIRS * SUMMED, pair = i % PAIRS;
    if (q >= rows) continue;
    vec2 s[SUMMED], chunk_sum[SUMMED];
    sum_chunk(q, pair, 0, begin, full, s);
    for (uint chunk = 1; chunk < CHUNKS; chunk++) {
      sum_chunk(q, pair, chunk, begin, full, chunk_sum);
      [[unroll]] for (uint j = 0; j < SUMMED; j++) {
        precise vec2 added = s[j] + chunk_sum[j];
        s[j] = added;
      }
    }
    [[unroll]] for (uint j = 0; j < SUMMED; j++) {
      if (q + j >= rows || !has_part(q + j, begin)) continue;
      const uint at = (q + j) * PAIRS + pair;
      sums[at] = vec2(merged(sums[at].x, s[j].x, factors[q + j]), merged(sums[at].y, s[j].y, factors[q + j]));
    }
  }
}

void main() {
  if (!lead()) return;
  take_queries();
  for (uint i = gl_LocalInvocationID.x; i < rows * PAIRS; i += gl_WorkGroupSize.x) sums[i] = vec2(0.0);
  for (uint q = gl_LocalInvocationID.x; q < rows; q += gl_WorkGroupSize.x) {
    largest[q] = NOTHING;
    total[q] = 0.0;
  }
  for (int begin = low / int(RANGE) * int(RANGE); begin <= high; begin += int(RANGE)) {
    barrier();
    score(begin);
    barrier();
    weigh(begin);
    barrier();
    sum_values(begin, begin >= first_of(rows - 1) && begin + int(RANGE) - 1 <= last_of(0));
  }
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < rows * PAIRS; i += gl_WorkGroupSize.x) {
    const uint q = i / PAIRS;
    write_pair(result_row(q) * DIM, i % PAIRS, sums[i] / total[q]);
  }
}
