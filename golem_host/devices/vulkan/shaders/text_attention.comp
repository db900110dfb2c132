// softmax(scale * q.k) v over the rows of a row's own text, at most WINDOW before and after it, in float32: q, k, v, out [rows, heads, dim], bounds [rows, 2]
// (text_bounds.comp). Positions are counted from the first row of a text on.
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

#include "merge.glsl"

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

const uint KEY_DIM = DIM, VALUE_DIM = DIM, HEADS = 1;
const bool PARTIAL = false, APART = false;
const float softcap = 0.0;

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
uint partial(uint q, int begin) { return 0; }

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

#include "attention.glsl"
