// Products of a laid matrix with a few columns: every weight is read once for all of them. Eight lanes beside one another
// have a row of a tile each, so that they read what lies side by side, for TILES tiles. SLICES times as many share these
// rows: slice after slice takes the next block of them and leaves its terms in shared memory, where each sum has one lane
// that adds them in the order of the row. Meanwhile the others read on.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "formats.glsl"
#include "product.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 128u;
layout(constant_id = 1) const uint COLUMNS = 1u;
layout(constant_id = 2) const uint TILES = 1u;
layout(constant_id = 3) const uint SLICES = 16u;
layout(constant_id = 4) const uint ROUNDS = 1u;  // blocks of a slice between two barriers
layout(constant_id = 5) const uint TURNS = 1u;   // of so many rounds
layout(constant_id = 6) const bool EXPERTS = false;
layout(constant_id = 7) const bool HAS_BIAS = false;

const uint kRows = 8u;
const uint GROUPS = LANES / (kRows * SLICES);  // of lanes, each with tiles of its own
const uint OUTPUTS = TILES * COLUMNS;          // for each row of a group
const uint OWNED = (OUTPUTS + SLICES - 1u) / SLICES;
const uint TOGETHER = SLICES < 4u ? SLICES : 4u;  // terms that are read before they are added
#ifdef FLOATS
const uint PIECES = 2u;  // that are read at once
#else
const uint PIECES = BLOCK <= 2u ? BLOCK : COLUMNS < 4u ? 4u : 2u;
#endif
#if defined(MINIMUM) || defined(MINIMUMS)
#define WORDS 2u
#else
#define WORDS 1u
#endif

// With two, sums of the terms in one are made while the next turn's are left in the other.
const uint BUFFERS = ROUNDS * OUTPUTS * WORDS > 8u ? 1u : TURNS < 2u ? 1u : 2u;
const uint STRIDE = LANES + kRows;  // so that lanes with several outputs meet different banks
shared float shared_terms[BUFFERS * ROUNDS * OUTPUTS * WORDS * STRIDE];

// Of this lane: where its columns and tiles begin, and the sums that it makes.
uint x[COLUMNS];
uint tile[TILES];
float sums[OWNED];

// A column that is given to this workgroup; where there are fewer than COLUMNS, the last stands in for the missing.
uint column_of(Columns c, uint i) {
  const uint at = c.first + min(i, c.count - 1u);
  return EXPERTS ? uint(groups[uint(groups[1]) + at]) : at;
}

// Multiplies block `which` of the lane's rows and leaves its terms in places from `place` on; beyond the row, nothing.
void leave_block(uint which, uint place, uint lane) {
  const uint row = lane % kRows;
  Block blocks[OUTPUTS];
  vec2 terms[OUTPUTS];
  [[unroll]] for (uint o = 0u; o < OUTPUTS; o++) {
    blocks[o] = NOTHING;
    terms[o] = vec2(0.0);
  }
#if defined(FLOATS) || defined(SUPER) || defined(WIDE)
  [[dont_unroll]] for (uint from = which * BLOCK; from < min((which + 1u) * BLOCK, pieces); from += PIECES) {
#else
  [[unroll]] for (uint once = 0u; once < 1u; once++) {  // without a branch: the rounds' words are read at once
    const uint from = min(which, pieces - 1u);
#endif
    [[unroll]] for (uint each = 0u; each < PIECES; each++) {
      const uint piece = from + each;
      Piece w[TILES];
      [[unroll]] for (uint t = 0u; t < TILES; t++) w[t] = piece_at(tile[t], pieces, piece, row);
      [[unroll]] for (uint i = 0u; i < COLUMNS; i++) {
        const uvec4 low = activations[x[i] + 2u * piece], high = activations[x[i] + 2u * piece + 1u];
        uvec2 scale = uvec2(0u);
#ifndef FLOATS
        const uvec4 scales = activations[x[i] + 2u * pieces + piece / 2u];
        scale = piece % 2u == 0u ? scales.xy : scales.zw;
#endif
        [[unroll]] for (uint t = 0u; t < TILES; t++) {
          const uint o = t * COLUMNS + i;
          blocks[o] = with_piece(blocks[o], w[t], low, high, scale);
          terms[o] = terms_of(blocks[o], w[t], scale);
        }
      }
    }
  }
  [[unroll]] for (uint o = 0u; o < OUTPUTS; o++) {
    const vec2 left = which * BLOCK < pieces ? terms[o] : vec2(0.0);
    shared_terms[(place + o) * WORDS * STRIDE + lane] = left.x;
    if (WORDS == 2u) shared_terms[((place + o) * WORDS + 1u) * STRIDE + lane] = left.y;
  }
}

// Adds what was left in a turn to the lane's sums.
void add_terms(uint at, uint end, uint side, uint lane) {
  const uint slice = lane / kRows % SLICES, first = lane / (kRows * SLICES) * SLICES;
  [[unroll]] for (uint i = 0u; i < OWNED; i++) {
    const uint o = slice + i * SLICES, there = o < OUTPUTS ? end - at : 0u;
    [[dont_unroll]] for (uint from = 0u; from < there; from += TOGETHER) {
      const uint place = ((side + from / SLICES) * OUTPUTS + o) * WORDS * STRIDE;
      [[unroll]] for (uint each = 0u; each < TOGETHER; each++) {
        const uint which = place + (first + (from + each) % SLICES) * kRows + lane % kRows;
        sums[i] = with_terms(sums[i], vec2(shared_terms[which], WORDS == 2u ? shared_terms[which + STRIDE] : 0.0));
      }
    }
  }
}

void take_turn(uint turn, uint count, uint side, uint lane) {
  const uint at = turn * ROUNDS * SLICES;
  [[unroll]] for (uint round = 0u; round < ROUNDS; round++)
    leave_block(at + round * SLICES + lane / kRows % SLICES, (side + round) * OUTPUTS, lane);
  barrier();
  add_terms(at, min(at + ROUNDS * SLICES, count), side, lane);
}

void main() {
  const uint lane = gl_LocalInvocationID.x, row = lane % kRows, slice = lane / kRows % SLICES;
  const Columns c = columns_of(gl_WorkGroupID.y, COLUMNS, EXPERTS);
  const uint tiles = (skip + rows + kRows - 1u) / kRows;
  const uint begin = (gl_WorkGroupID.z * gl_NumWorkGroups.x + gl_WorkGroupID.x) * GROUPS * TILES;
  if (c.count == 0u || begin >= tiles) return;

  [[unroll]] for (uint i = 0u; i < COLUMNS; i++) {
    const uint column = column_of(c, i);
    x[i] = (EXPERTS && inner == 1u ? column / used : column) * X_STRIDE;
  }
  const uint first = begin + lane / (kRows * SLICES) * TILES;
  [[unroll]] for (uint t = 0u; t < TILES; t++)
    tile[t] = (c.matrix * matrix_tiles + first_tile + min(first + t, tiles - 1u)) * pieces * EIGHT_PIECES;
  [[unroll]] for (uint i = 0u; i < OWNED; i++) sums[i] = 0.0;

  const uint count = (pieces + BLOCK - 1u) / BLOCK;
  if (TURNS == 1u) {
    take_turn(0u, count, 0u, lane);
  } else {
    uint side = 0u;
    [[dont_unroll]] for (uint turn = 0u; turn < TURNS; turn++) {
      if (BUFFERS == 1u) barrier();
      take_turn(turn, count, side, lane);
      if (BUFFERS == 2u) side = ROUNDS - side;
    }
  }

  [[unroll]] for (uint own = 0u; own < OWNED; own++) {
    const uint o = slice + own * SLICES;
    const uint i = o % COLUMNS, r = (first + o / COLUMNS) * kRows + row - skip;
    if (o >= OUTPUTS || i >= c.count || r >= rows) continue;
    precise float sum = sums[own];
    if (HAS_BIAS) sum = sum + bias[first_row + r];
    if (c.absent) sum = uintBitsToFloat(0x7fc00000u);
    result[column_of(c, i) * width + first_row + r] = sum;
  }
}
