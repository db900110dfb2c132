// A tile of queries over slot caches that read the same keys: neighbouring rows of one slot, of each of them some heads of one
// kv head. What the shaders of attention share; which rows share a tile leaves no trace. The order of sums is the CPU's
// (kernels/src/attention_*.cpp):
//
//   scores    of the query rounded to half, over the dimensions in their order
//   weights   e^(score - largest of all), summed in 16 lanes, counted from the row's first position, within 1024 positions,
//             whose sums are added as pairs (the CPU: in double); times the inverse of the sum, rounded to half
//   values    weight * value over chunks of 64 positions, counted from 0, key after key; the chunks' sums in their order
//
// Products of halves are exact, so it does not matter here whether fma rounds once. One that includes this has declared the
// constants CELLS, HEADS (of a row's queries in a tile), ROWS (of a tile at most), the buffers Slots, Positions and Live, and
// the numbers axis, slot_count, kv_heads, group (heads of a kv head), window.
#include "attention_order.glsl"
#include "cells.glsl"

const float MASKED = -1.0;  // in place of a weight

uint row, rows, kv_head, first_head;
int slot, position;  // of the tile's first row
int low, high;       // the first and the last position that the tile attends

int first_attended(int at) { return window > 0 && at >= window ? at - window + 1 : 0; }
int last_of(uint q) { return position + int(q / HEADS); }
int first_of(uint q) { return first_attended(last_of(q)); }
bool attends(uint q, int at) { return at >= first_of(q) && at <= last_of(q); }
uint head_of(uint q) { return (row + q / HEADS) * kv_heads * group + first_head + q % HEADS; }  // of all heads of all rows

// A tile that begins with the row of z, if one does: when it does not go on where the row before it is, or its position is a
// multiple of ROWS.
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
