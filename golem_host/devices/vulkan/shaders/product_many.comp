// Products of a laid matrix with many columns. A workgroup computes a block of ROWS x COLUMNS results: pieces of its
// weights are unpacked once into shared memory, beside those of its columns, STEP at a time. A lane has EACH_ROW x
// EACH_COLUMN of the results.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "formats.glsl"
#include "product.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 256u;
layout(constant_id = 1) const uint EACH_COLUMN = 4u;
layout(constant_id = 2) const uint EACH_ROW = 4u;
layout(constant_id = 3) const bool EXPERTS = false;
layout(constant_id = 4) const bool HAS_BIAS = false;

const uint ACROSS = 16u;  // lanes beside one another have neighbouring rows
const uint DOWN = LANES / ACROSS;
const uint ROWS = ACROSS * EACH_ROW, COLUMNS = DOWN * EACH_COLUMN, STEP = 4u;

// [piece][half][row or column]
shared uvec4 weight_codes[STEP * 2u * ROWS];
shared uvec4 column_codes[STEP * 2u * COLUMNS];
#ifndef FLOATS
shared vec2 weight_scales[STEP * ROWS];  // d, m
shared uvec2 column_scales[STEP * COLUMNS];
#endif
#ifdef SUPER
shared uint weight_bytes[STEP * ROWS];  // two scales, two minimums
#endif
shared uint column_places[COLUMNS];  // in `activations`

uint column_of(Columns c, uint i) {
  const uint at = c.first + min(i, c.count - 1u);
  return EXPERTS ? uint(groups[uint(groups[1]) + at]) : at;
}

// Pieces `piece` and the next of the block's rows; the tiles from `first` to `last` have them.
void load_weights(uint first, uint last, uint piece, uint lane) {
  for (uint task = lane; task < STEP * ROWS; task += LANES) {
    const uint row = task % ROWS, k = task / ROWS;
    if (piece + k >= pieces) continue;
    const Piece w = piece_at(min(first + row / 8u, last) * pieces * EIGHT_PIECES, pieces, piece + k, row % 8u);
    weight_codes[2u * k * ROWS + row] = w.low;
    weight_codes[(2u * k + 1u) * ROWS + row] = w.high;
#ifndef FLOATS
    weight_scales[task] = vec2(w.d, w.m);
#endif
#ifdef SUPER
    const uvec2 scales = uvec2(w.scales & 255), minimums = uvec2(w.minimums);
    weight_bytes[task] = scales.x | scales.y << 8 | minimums.x << 16 | minimums.y << 24;
#endif
  }
}

void load_columns(uint piece, uint lane) {
  for (uint task = lane; task < STEP * COLUMNS; task += LANES) {
    const uint column = task % COLUMNS, k = task / COLUMNS;
    if (piece + k >= pieces) continue;
    const uint place = column_places[column];
    column_codes[2u * k * COLUMNS + column] = activations[place + 2u * (piece + k)];
    column_codes[(2u * k + 1u) * COLUMNS + column] = activations[place + 2u * (piece + k) + 1u];
#ifndef FLOATS
    const uvec4 scales = activations[place + 2u * pieces + (piece + k) / 2u];
    column_scales[task] = (piece + k) % 2u == 0u ? scales.xy : scales.zw;
#endif
  }
}

Piece loaded(uint k, uint row) {
  Piece w;
  w.low = weight_codes[2u * k * ROWS + row];
  w.high = weight_codes[(2u * k + 1u) * ROWS + row];
#ifndef FLOATS
  const vec2 scales = weight_scales[k * ROWS + row];
  w.d = scales.x;
  w.m = scales.y;
#endif
#ifdef SUPER
  const uint bytes = weight_bytes[k * ROWS + row];
  w.scales = ivec2(bytes << 24, bytes << 16) >> 24;
  w.minimums = ivec2((bytes >> 16) & 255u, bytes >> 24);
#endif
  return w;
}

void main() {
  const uint lane = gl_LocalInvocationID.x, across = lane % ACROSS, down = lane / ACROSS;
  const Columns c = columns_of(gl_WorkGroupID.y, COLUMNS, EXPERTS);
  const uint first = (gl_WorkGroupID.z * gl_NumWorkGroups.x + gl_WorkGroupID.x) * (ROWS / 8u), tiles = (skip + rows + 7u) / 8u;
  if (c.count == 0u || first >= tiles) return;
  const uint first_place = c.matrix * matrix_tiles + first_tile;

  for (uint i = lane; i < COLUMNS; i += LANES) {
    const uint column = column_of(c, i);
    column_places[i] = (EXPERTS && inner == 1u ? column / used : column) * X_STRIDE;
  }
  float sums[EACH_ROW * EACH_COLUMN];
  Block blocks[EACH_ROW * EACH_COLUMN];
  [[unroll]] for (uint i = 0u; i < EACH_ROW * EACH_COLUMN; i++) {
    sums[i] = 0.0;
    blocks[i] = NOTHING;
  }

  [[dont_unroll]] for (uint piece = 0u; piece < pieces; piece += STEP) {
    barrier();
    load_weights(first_place + first, first_place + tiles - 1u, piece, lane);
    load_columns(piece, lane);
    barrier();
    [[dont_unroll]] for (uint k = 0u; k < min(STEP, pieces - piece); k++) {
      const bool block_ends = (piece + k) % BLOCK == BLOCK - 1u || piece + k == pieces - 1u;
      Piece w[EACH_ROW];
      [[unroll]] for (uint i = 0u; i < EACH_ROW; i++) w[i] = loaded(k, i * ACROSS + across);
      [[unroll]] for (uint j = 0u; j < EACH_COLUMN; j++) {
        const uint column = j * DOWN + down;
        const uvec4 low = column_codes[2u * k * COLUMNS + column], high = column_codes[(2u * k + 1u) * COLUMNS + column];
#ifdef FLOATS
        const uvec2 scale = uvec2(0u);
#else
        const uvec2 scale = column_scales[k * COLUMNS + column];
#endif
        [[unroll]] for (uint i = 0u; i < EACH_ROW; i++) {
          const uint o = i * EACH_COLUMN + j;
          blocks[o] = with_piece(blocks[o], w[i], low, high, scale);
          if (block_ends) {
            sums[o] = with_terms(sums[o], terms_of(blocks[o], w[i], scale));
            blocks[o] = NOTHING;
          }
        }
      }
    }
  }

  [[unroll]] for (uint j = 0u; j < EACH_COLUMN; j++) {
    const uint column = j * DOWN + down;
    if (column >= c.count) continue;
    const uint target = column_of(c, column) * width + first_row;
    [[unroll]] for (uint i = 0u; i < EACH_ROW; i++) {
      const uint r = first * 8u + i * ACROSS + across - skip;
      if (r >= rows) continue;
      precise float sum = sums[i * EACH_COLUMN + j];
      if (HAS_BIAS) sum = sum + bias[first_row + r];
      if (c.absent) sum = uintBitsToFloat(0x7fc00000u);
      result[target + r] = sum;
    }
  }
}
