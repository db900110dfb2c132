// Products of a laid matrix with a few columns: every weight is read once for all of them. Eight lanes beside one another
// have a row of a tile each, so that they read what lies side by side, for TILES tiles. SLICES times as many share these
// rows: slice after slice takes the next piece of them (floats: the next span) and leaves what it gives in shared memory,
// where each sum has one lane that adds in the order of the row. Meanwhile the others read on.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "formats.glsl"
#include "product.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 128u;
layout(constant_id = 1) const uint COLUMNS = 1u;
layout(constant_id = 2) const uint TILES = 1u;
layout(constant_id = 3) const uint SLICES = 16u;  // a multiple of BLOCK
layout(constant_id = 4) const uint ROUNDS = 1u;   // between barriers
layout(constant_id = 5) const bool EXPERTS = false;
layout(constant_id = 6) const bool HAS_BIAS = false;

const uint kRows = 8u;
const uint GROUPS = LANES / (kRows * SLICES);  // of lanes, each with tiles of its own
const uint OUTPUTS = TILES * COLUMNS;          // for each row of a group
const uint OWNED = (OUTPUTS + SLICES - 1u) / SLICES;
#ifdef FLOATS
#define WORDS 1
#define SPAN_OR_PIECE SPAN
#else
#define SPAN_OR_PIECE 1u
#endif
// With two, sums of one are made while terms are left in the other.
const uint BUFFERS = ROUNDS * OUTPUTS * WORDS > 8u ? 1u : 2u;

const uint TOGETHER = BLOCK > 4 ? BLOCK : SLICES < 4u ? SLICES : 4u;  // terms that are read before they are added
const uint STRIDE = LANES + kRows;  // so that lanes with several outputs meet different banks
shared uint terms[BUFFERS * ROUNDS * OUTPUTS * WORDS * STRIDE];
#if BLOCK > 1
const uint BLOCKS = LANES / BLOCK;
shared vec2 block_scales[BUFFERS * ROUNDS * OUTPUTS * BLOCKS];
#endif

// A column that is given to this workgroup; where there are fewer than COLUMNS, the last stands in for the missing.
uint column_of(Columns c, uint i) {
  const uint at = c.first + min(i, c.count - 1u);
  return EXPERTS ? uint(groups[uint(groups[1]) + at]) : at;
}

// A sum with terms of a round: of TOGETHER slices from `slice` on.
Sum with_terms(Sum s, uint place, uint lane, uint slice) {
  const uint row = lane % kRows, first = lane / (kRows * SLICES) * SLICES + slice;
  [[unroll]] for (uint i = 0u; i < TOGETHER; i++) {
    const uint from = (first + i) * kRows + row;
#ifdef FLOATS
    s.block = uintBitsToFloat(terms[place * STRIDE + from]);
    s = with_block(s);
#else
    uvec2 term = uvec2(terms[place * WORDS * STRIDE + from], 0u);
#if WORDS == 2
    term.y = terms[(place * WORDS + 1u) * STRIDE + from];
#endif
    s = with_term(s, term);
#if BLOCK > 1
    if (i % BLOCK == BLOCK - 1u) s = with_block(s, block_scales[place * BLOCKS + (first + i) / BLOCK * kRows + row]);
#endif
#endif
  }
  return s;
}

void main() {
  const uint lane = gl_LocalInvocationID.x, row = lane % kRows, slice = lane / kRows % SLICES;
  const Columns c = columns_of(gl_WorkGroupID.y, COLUMNS, EXPERTS);
  const uint tiles = (skip + rows + kRows - 1u) / kRows;
  const uint begin = (gl_WorkGroupID.z * gl_NumWorkGroups.x + gl_WorkGroupID.x) * GROUPS * TILES;
  if (c.count == 0u || begin >= tiles) return;
  const uint first = begin + lane / (kRows * SLICES) * TILES;

  uint x[COLUMNS];
  [[unroll]] for (uint i = 0u; i < COLUMNS; i++) {
    const uint column = column_of(c, i);
    x[i] = (EXPERTS && inner == 1u ? column / used : column) * X_STRIDE;
  }
  uint tile[TILES];
  [[unroll]] for (uint t = 0u; t < TILES; t++)
    tile[t] = (c.matrix * matrix_tiles + first_tile + min(first + t, tiles - 1u)) * pieces * EIGHT_PIECES;
  Sum sums[OWNED];
  [[unroll]] for (uint i = 0u; i < OWNED; i++) sums[i] = NOTHING;

  const uint count = (pieces + SPAN_OR_PIECE - 1u) / SPAN_OR_PIECE;  // of terms in a row
  uint side = 0u;
  [[dont_unroll]] for (uint at = 0u; at < count; at += ROUNDS * SLICES) {
    if (BUFFERS == 1u) barrier();
    [[unroll]] for (uint round = 0u; round < ROUNDS; round++) {
      const uint place = (side + round) * OUTPUTS, which = at + round * SLICES + slice;
#ifdef FLOATS
      float spans[OUTPUTS];
      [[unroll]] for (uint o = 0u; o < OUTPUTS; o++) spans[o] = 0.0;
      [[dont_unroll]] for (uint pair = which * SPAN; pair < min((which + 1u) * SPAN, pieces); pair += 2u) {
        [[unroll]] for (uint piece = pair; piece < pair + 2u; piece++) {
          Piece w[TILES];
          [[unroll]] for (uint t = 0u; t < TILES; t++) w[t] = piece_at(tile[t], pieces, piece, row);
          [[unroll]] for (uint i = 0u; i < COLUMNS; i++) {
            const uvec4 low = activations[x[i] + 2u * piece], high = activations[x[i] + 2u * piece + 1u];
            [[unroll]] for (uint t = 0u; t < TILES; t++)
              spans[t * COLUMNS + i] = add_piece(spans[t * COLUMNS + i], w[t], low, high);
          }
        }
      }
      [[unroll]] for (uint o = 0u; o < OUTPUTS; o++) terms[(place + o) * STRIDE + lane] = floatBitsToUint(spans[o]);
#else
      const bool there = which < pieces;  // else nothing is added
      const uint piece = min(which, pieces - 1u);
      Piece w[TILES];
      [[unroll]] for (uint t = 0u; t < TILES; t++) w[t] = piece_at(tile[t], pieces, piece, row);
      [[unroll]] for (uint i = 0u; i < COLUMNS; i++) {
        const uvec4 low = activations[x[i] + 2u * piece], high = activations[x[i] + 2u * piece + 1u];
        const uvec4 scales = activations[x[i] + 2u * pieces + piece / 2u];
        const uvec2 scale = piece % 2u == 0u ? scales.xy : scales.zw;
        [[unroll]] for (uint t = 0u; t < TILES; t++) {
          const uint o = place + t * COLUMNS + i;
          const uvec2 term = there ? term_of(w[t], low, high, scale.x, scale.y) : uvec2(0u);
          terms[o * WORDS * STRIDE + lane] = term.x;
#if WORDS == 2
          terms[(o * WORDS + 1u) * STRIDE + lane] = term.y;
#endif
#if BLOCK > 1
          if (slice % BLOCK == 0u)
            block_scales[o * BLOCKS + (lane / kRows / BLOCK) * kRows + row] = there ? scales_of(w[t].d, w[t].m, scale.x) : vec2(0.0);
#endif
        }
      }
#endif
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < OWNED; i++) {
      const uint o = slice + i * SLICES, end = o < OUTPUTS ? min(ROUNDS * SLICES, count - at) : 0u;
      [[dont_unroll]] for (uint from = 0u; from < end; from += TOGETHER)
        sums[i] = with_terms(sums[i], (side + from / SLICES) * OUTPUTS + o, lane, from % SLICES);
    }
    if (BUFFERS == 2u) side = ROUNDS - side;
  }

  [[unroll]] for (uint own = 0u; own < OWNED; own++) {
    const uint o = slice + own * SLICES;
    const uint i = o % COLUMNS, r = (first + o / COLUMNS) * kRows + row - skip;
    if (o >= OUTPUTS || i >= c.count || r >= rows) continue;
    precise float sum = sums[own].total;
    if (HAS_BIAS) sum = sum + bias[first_row + r];
    if (c.absent) sum = uintBitsToFloat(0x7fc00000u);
    result[column_of(c, i) * width + first_row + r] = sum;
  }
}
