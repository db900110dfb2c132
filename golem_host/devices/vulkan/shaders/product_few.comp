// Products of a laid matrix with a few columns: every weight is read once for all of them. A workgroup takes TILES tiles
// of rows: eight lanes a slice of the row, each with a row of each tile, so that lanes read what lies side by side.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "formats.glsl"
#include "product.glsl"

layout(local_size_x_id = 0) in;  // 128: 8 rows, 16 slices
layout(constant_id = 1) const uint COLUMNS = 1u;
layout(constant_id = 2) const uint TILES = 1u;
layout(constant_id = 3) const bool EXPERTS = false;
layout(constant_id = 4) const bool HAS_BIAS = false;

const uint kSlices = 16u, kRows = 8u;
const uint OUTPUTS = TILES * COLUMNS;

shared float slice_sums[kSlices * kRows * OUTPUTS];

// A column that is given to this workgroup; where there are fewer than COLUMNS, the last stands in for the missing.
uint column_of(Columns c, uint i) {
  const uint at = c.first + min(i, c.count - 1u);
  return EXPERTS ? uint(groups[uint(groups[1]) + at]) : at;
}

void main() {
  const uint lane = gl_LocalInvocationID.x, row = lane % kRows, slice = lane / kRows;
  const Columns c = columns_of(gl_WorkGroupID.y, COLUMNS, EXPERTS);
  const uint first = (gl_WorkGroupID.z * gl_NumWorkGroups.x + gl_WorkGroupID.x) * TILES;
  const uint tiles = (skip + rows + kRows - 1u) / kRows;
  if (c.count == 0u || first >= tiles) return;

  uint x[COLUMNS];
  [[unroll]] for (uint i = 0u; i < COLUMNS; i++) {
    const uint column = column_of(c, i);
    x[i] = (EXPERTS && inner == 1u ? column / used : column) * X_STRIDE;
  }
  uint tile[TILES];
  [[unroll]] for (uint t = 0u; t < TILES; t++)
    tile[t] = (c.matrix * matrix_tiles + first_tile + min(first + t, tiles - 1u)) * pieces * EIGHT_PIECES;
  float sums[OUTPUTS];
  [[unroll]] for (uint i = 0u; i < OUTPUTS; i++) sums[i] = 0.0;

  const uint pairs = pieces / 2u, begin = slice * slice_pieces / 2u, end = min(begin + slice_pieces / 2u, pairs);
  [[dont_unroll]] for (uint pair = begin; pair < end; pair++) {
    [[unroll]] for (uint second = 0u; second < 2u; second++) {
      const uint piece = 2u * pair + second;
      Piece w[TILES];
      [[unroll]] for (uint t = 0u; t < TILES; t++) w[t] = piece_at(tile[t], pieces, piece, row);
      [[unroll]] for (uint i = 0u; i < COLUMNS; i++) {
        const uvec4 low = activations[x[i] + 2u * piece], high = activations[x[i] + 2u * piece + 1u];
        uvec2 scale = uvec2(0u);
#ifndef FLOATS
        const uvec4 scales = activations[x[i] + 2u * pieces + pair];
        scale = second == 0u ? scales.xy : scales.zw;
#endif
        [[unroll]] for (uint t = 0u; t < TILES; t++)
          sums[t * COLUMNS + i] = add_piece(sums[t * COLUMNS + i], w[t], low, high, scale.x, scale.y);
      }
    }
  }
  [[unroll]] for (uint i = 0u; i < OUTPUTS; i++) slice_sums[(i * kSlices + slice) * kRows + row] = sums[i];
  barrier();

  for (uint o = slice; o < OUTPUTS; o += kSlices) {
    const uint i = o % COLUMNS, r = (first + o / COLUMNS) * kRows + row - skip;
    if (i >= c.count || r >= rows) continue;
    precise float sum = 0.0;
    for (uint s = 0u; s < kSlices; s++) sum = sum + slice_sums[(o * kSlices + s) * kRows + row];
    if (HAS_BIAS) sum = sum + bias[first_row + r];
    if (c.absent) sum = uintBitsToFloat(0x7fc00000u);
    result[column_of(c, i) * width + first_row + r] = sum;
  }
}
