// One piece of a laid row (layouts.py), whatever its type, as what is multiplied and dequantized. A shader is compiled
// for one TYPE. Codes of a piece are int8, four a word: `low` has the first half of its values. They may be a multiple
// of the type's codes by a power of two, of which `d` has the inverse, so nothing is rounded by it.
//
//   value = d * code                                    SIMPLE and WIDE types
//   value = d * code - m                                with a MINIMUM
//   value = (d * scale) * code [- m * minimum]          SUPER types [with MINIMUMS]; of each half of a piece

#include "half.glsl"

#if defined(F32) || defined(F16) || defined(BF16)
#define FLOATS
#endif
#if defined(Q2_K) || defined(Q3_K) || defined(Q4_K) || defined(Q5_K) || defined(Q6_K) || defined(IQ4_XS)
#define SUPER
#elif defined(Q1_0) || defined(Q2_0) || defined(PQ2_0) || defined(PTQ1_0)
#define WIDE
#endif
#if defined(Q4_1) || defined(Q5_1)
#define MINIMUM
#elif defined(Q2_K) || defined(Q4_K) || defined(Q5_K)
#define MINIMUMS
#endif

// How many values eight words hold.
#if defined(F32)
#define PIECE 8u
#elif defined(F16) || defined(BF16)
#define PIECE 16u
#else
#define PIECE 32u
#endif

// Pieces that are summed before they are added to the sum of a row (product.glsl): those that share d; of floats, 512
// values.
#if defined(FLOATS)
#define BLOCK (512u / PIECE)
#elif defined(SUPER)
#define BLOCK 8u
#elif defined(Q2_0)
#define BLOCK 2u
#elif defined(WIDE)
#define BLOCK 4u
#else
#define BLOCK 1u
#endif

// Words that eight pieces of a row take; a tile of eight rows takes as many for each piece.
#if defined(Q4_0) || defined(IQ4_NL) || defined(Q4_K)
#define EIGHT_PIECES 36u
#elif defined(Q4_1)
#define EIGHT_PIECES 40u
#elif defined(Q5_0) || defined(Q5_K)
#define EIGHT_PIECES 44u
#elif defined(Q5_1)
#define EIGHT_PIECES 48u
#elif defined(Q8_0)
#define EIGHT_PIECES 68u
#elif defined(Q2_K)
#define EIGHT_PIECES 21u
#elif defined(Q3_K)
#define EIGHT_PIECES 29u
#elif defined(Q6_K)
#define EIGHT_PIECES 53u
#elif defined(IQ4_XS)
#define EIGHT_PIECES 34u
#elif defined(Q1_0)
#define EIGHT_PIECES 10u
#elif defined(Q2_0)
#define EIGHT_PIECES 20u
#elif defined(PQ2_0) || defined(PTQ1_0)
#define EIGHT_PIECES 18u
#else
#define EIGHT_PIECES 64u
#endif

layout(std430, set = 0, binding = 0) readonly buffer WeightsByFour { uvec4 weights4[]; };
layout(std430, set = 0, binding = 0) readonly buffer WeightsByOne { uint weights1[]; };

struct Piece {
  uvec4 low, high;
  float d, m;
  ivec2 scales, minimums;
};

// Words of a plane, in the order of a tile; `at` counts words from the tile's first.
uint plane_size(uint units, uint words) { return units * words * 8u; }
uint unit_at(uint unit, uint words, uint row) { return (unit * 8u + row) * words; }

float scale_of_pair(uint word, uint piece) { return half_value((word >> (16u * (piece & 1u))) & 0xffffu); }
ivec2 bytes_of_pair(uint word, uint piece) { return ivec2(uvec2(word >> (16u * (piece & 1u))) >> uvec2(0u, 8u)) & 255; }
ivec2 signed_bytes_of_pair(uint word, uint piece) { return (bytes_of_pair(word, piece) ^ 128) - 128; }

const uint kLow = 0x0f0f0f0fu, kHigh = 0xf0f0f0f0u;

#if defined(IQ4_NL) || defined(IQ4_XS)
// -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113
uint iq4_value(uint code) {
  uint table = code < 8u ? (code < 4u ? 0xbfad9881u : 0xf6eaddcfu) : (code < 12u ? 0x26190d01u : 0x71594535u);
  return (table >> (8u * (code & 3u))) & 255u;
}
uvec4 iq4_values(uvec4 codes) {
  uvec4 values;
  for (int i = 0; i < 4; i++) {
    uint c = codes[i];
    values[i] = iq4_value(c & 15u) | iq4_value((c >> 8) & 15u) << 8 | iq4_value((c >> 16) & 15u) << 16 | iq4_value(c >> 24) << 24;
  }
  return values;
}
#endif

// One bit of each code of a piece's eight words, moved to bit `to` of it.
#if defined(Q5_0) || defined(Q5_1) || defined(Q5_K) || defined(Q3_K) || defined(Q1_0)
uvec4 bits_of_low(uint bits, int to) { return ((uvec4(bits) >> uvec4(0u, 1u, 2u, 3u)) & 0x01010101u) << to; }
uvec4 bits_of_high(uint bits, int to) { return ((uvec4(bits) >> uvec4(4u, 5u, 6u, 7u)) & 0x01010101u) << to; }
#endif
// The two-bit codes of four words, in the top two bits of each code.
#if defined(Q6_K) || defined(Q2_K) || defined(Q3_K) || defined(Q2_0) || defined(PQ2_0) || defined(PTQ1_0)
uvec4 top_two(uint word) { return (uvec4(word) << uvec4(6u, 4u, 2u, 0u)) & 0xc0c0c0c0u; }
#endif

// Scale and minimum of piece `piece` of eight, from the packed six-bit pairs of Q4_K and Q5_K.
#if defined(Q4_K) || defined(Q5_K)
ivec2 six_bits(uvec4 header, uint piece) {
  uint shift = 8u * (piece & 3u);
  uint a = header.y >> shift, b = header.z >> shift, c = header.w >> shift;
  bool first = (piece & 7u) < 4u;
  uint scale = first ? a & 63u : (c & 15u) | ((a >> 2) & 48u);
  uint minimum = first ? b & 63u : ((c >> 4) & 15u) | ((b >> 2) & 48u);
  return ivec2(scale, minimum);
}
#endif

// Piece `piece` of row `row` (of eight) of the tile that begins at word `tile`; a row has `pieces`.
Piece piece_at(uint tile, uint pieces, uint piece, uint row) {
  Piece w;
  w.d = 0.0;
  w.m = 0.0;
  w.scales = ivec2(1);
  w.minimums = ivec2(0);
#if defined(FLOATS) || defined(Q8_0)
  uint words = tile + unit_at(2u * piece, 4u, row);
  w.low = weights4[words / 4u];
  w.high = weights4[words / 4u + 8u];
#ifdef Q8_0
  w.d = scale_of_pair(weights1[tile + plane_size(2u * pieces, 4u) + unit_at(piece / 2u, 1u, row)], piece);
#endif
#elif defined(Q1_0)
  uint bits = weights1[tile + unit_at(piece, 1u, row)];  // 1: -1
  w.low = (bits_of_low(bits, 0) * 0xfeu) ^ 0x01010101u;
  w.high = (bits_of_high(bits, 0) * 0xfeu) ^ 0x01010101u;
  w.d = uintBitsToFloat(weights1[tile + plane_size(pieces, 1u) + unit_at(piece / BLOCK, 1u, row)]);
#elif defined(Q2_0) || defined(PQ2_0) || defined(PTQ1_0)
  uint at = tile + unit_at(piece, 2u, row);
  w.low = top_two(weights1[at]);
  w.high = top_two(weights1[at + 1u]);
  w.d = uintBitsToFloat(weights1[tile + plane_size(pieces, 2u) + unit_at(piece / BLOCK, 1u, row)]) * -0.015625;
#elif defined(Q2_K) || defined(Q3_K)
  uint at = tile + unit_at(piece, 2u, row);
  uint first = weights1[at], second = weights1[at + 1u];
  at = tile + plane_size(pieces, 2u);
#ifdef Q3_K
  uint bits = weights1[at + unit_at(piece, 1u, row)];
  at += plane_size(pieces, 1u);
  w.low = (top_two(first) >> 1 & 0x60606060u) | bits_of_low(bits, 7);
  w.high = (top_two(second) >> 1 & 0x60606060u) | bits_of_high(bits, 7);
  w.scales = signed_bytes_of_pair(weights1[at + unit_at(piece / 2u, 1u, row)], piece);
  at += plane_size(pieces / 2u, 1u);
  w.d = uintBitsToFloat(weights1[at + unit_at(piece / 8u, 1u, row)]) * 0.03125;
#else
  w.low = top_two(first) >> 6;
  w.high = top_two(second) >> 6;
  ivec2 both = bytes_of_pair(weights1[at + unit_at(piece / 2u, 1u, row)], piece);
  w.scales = both & 15;
  w.minimums = both >> 4;
  at += plane_size(pieces / 2u, 1u);
  uint scale = weights1[at + unit_at(piece / 8u, 1u, row)];
  w.d = half_value(scale & 0xffffu);
  w.m = half_value(scale >> 16);
#endif
#else
  uvec4 codes = weights4[(tile + unit_at(piece, 4u, row)) / 4u];
  uint at = tile + plane_size(pieces, 4u);
#if defined(Q4_0)
  w.low = (codes << 4) & kHigh;
  w.high = codes & kHigh;
  w.d = scale_of_pair(weights1[at + unit_at(piece / 2u, 1u, row)], piece) * 0.0625;
#elif defined(IQ4_NL) || defined(IQ4_XS)
  w.low = iq4_values(codes & kLow);
  w.high = iq4_values((codes >> 4) & kLow);
#ifdef IQ4_NL
  w.d = scale_of_pair(weights1[at + unit_at(piece / 2u, 1u, row)], piece);
#else
  at += unit_at(piece / 8u, 2u, row);
  uint header = weights1[at], j = piece & 7u;
  uint scale = ((weights1[at + 1u] >> (4u * j)) & 15u) | (((header >> (16u + 2u * j)) & 3u) << 4);
  w.scales = ivec2(int(scale) - 32);
  w.d = half_value(header & 0xffffu);
#endif
#elif defined(Q6_K)
  uint high = at + unit_at(piece, 2u, row);
  w.low = ((codes & kLow) << 2) | top_two(weights1[high]);
  w.high = ((codes >> 2) & 0x3c3c3c3cu) | top_two(weights1[high + 1u]);
  at += plane_size(pieces, 2u);
  w.scales = signed_bytes_of_pair(weights1[at + unit_at(piece / 2u, 1u, row)], piece);
  at += plane_size(pieces / 2u, 1u);
  w.d = uintBitsToFloat(weights1[at + unit_at(piece / 8u, 1u, row)]) * 0.25;
#else
  w.low = codes & kLow;
  w.high = (codes >> 4) & kLow;
#if defined(Q5_0) || defined(Q5_1) || defined(Q5_K)
  uint bits = weights1[at + unit_at(piece, 1u, row)];
  at += plane_size(pieces, 1u);
#endif
#if defined(Q5_0)
  w.low = (w.low << 3) | bits_of_low(bits, 7);
  w.high = (w.high << 3) | bits_of_high(bits, 7);
  w.d = scale_of_pair(weights1[at + unit_at(piece / 2u, 1u, row)], piece) * 0.125;
#else
#if defined(Q5_1) || defined(Q5_K)
  w.low |= bits_of_low(bits, 4);
  w.high |= bits_of_high(bits, 4);
#endif
#if defined(Q4_1) || defined(Q5_1)
  uint both = weights1[at + unit_at(piece, 1u, row)];
  w.d = half_value(both & 0xffffu);
  w.m = -half_value(both >> 16);
#else
  const uvec4 header = weights4[(at + unit_at(piece / 8u, 4u, row)) / 4u];
  const ivec2 both = six_bits(header, piece);
  w.scales = both.xx;
  w.minimums = both.yy;
  w.d = half_value(header.x & 0xffffu);
  w.m = half_value(header.x >> 16);
#endif
#endif
#endif
#endif
  return w;
}
