// softmax(scale * q.k) v over slot caches, for tiles of queries that read the same keys: neighbouring rows of one slot, of
// each of them some heads of one kv head. Queries are rounded to half precision as ggml does; weights are not, as in its
// flash attention.
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

const uint KEY_WORDS = (KEY_DIM + 1) / 2, VALUE_WORDS = (VALUE_DIM + 1) / 2;

uint row, rows, kv_head, first_head;
int slot, position;  // of the tile's first row
int low, high;       // the first and the last position that the tile attends

int first_attended(int at) { return window > 0 && at >= window ? at - window + 1 : 0; }
int last_of(uint q) { return position + int(q / HEADS); }
int first_of(uint q) { return first_attended(last_of(q)); }
uint result_row(uint q) { return (row + q / HEADS) * kv_heads * group + first_head + q % HEADS; }
float query_value(uint q, uint d) { return rounded_to_half(queries[result_row(q) * KEY_DIM + d]); }

uint key_base(int at) {
  return first_key(uint(slot) * kv_heads + kv_head, CELLS, KEY_WORDS) + key_word(uint(at) % CELLS, 0, KEY_WORDS);
}

vec4 key_quad(uint base, uint quad) {
  const uint second = 2 * quad + 1 < KEY_WORDS ? keys[base + (2 * quad + 1) * BLOCK_CELLS] : 0u;
  return vec4(unpackHalf2x16(keys[base + 2 * quad * BLOCK_CELLS]), unpackHalf2x16(second));
}

vec2 value_pair(int at, uint pair) {
  const uint cell = (uint(slot) * kv_heads + kv_head) * CELLS + uint(at) % CELLS;
  return unpackHalf2x16(values[cell * VALUE_WORDS + pair]);
}

// Where a query's result of a range lies.
uint partial(uint q, int begin) {
  const uint of_row = uint(begin / int(RANGE) - first_of(q) / int(RANGE));
  return (result_row(q) * ranges + of_row) * (2 + VALUE_DIM);
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
  low = first_attended(position);
  high = position + int(rows) - 1;
  return true;
}

#include "attention.glsl"
