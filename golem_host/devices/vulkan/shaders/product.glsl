// What the two product shaders share: how a piece of weights meets a piece of activations, and which columns a
// workgroup takes. The order of sums is that of the CPU's kernels (product_blocks.cpp, panel.h), to the bit: a row is
// added up block after block, in their order, without fused steps. A block adds
//
//   (d * a) * float(whole), then -m * sum if its type has a minimum        one piece; a, sum: of the activations
//   d * (((0 + a * float(whole)) + a * float(whole)) + ...)                WIDE: for each of its pieces
//   (d * a) * float(whole), then -(m * a) * float(minimums)                SUPER: whole numbers of all its pieces
//   fma(w, x, ... fma(w, x, 0))                                            FLOATS: a span of 512 inputs
//
// A row of activations (quantize_*.comp): two uvec4 of codes for each piece; then, not for floats, for each two pieces
// a uvec4: the scale of the first as float bits, its offset factor, those of the second. The offset factor is for Q4_1
// and Q5_1 the float that minimums are multiplied with, else the sums of its two halves as int16.

#ifdef DOT
// OpSDot of SPV_KHR_integer_dot_product on four packed int8; glslang before 13 has no name for it.
#extension GL_EXT_spirv_intrinsics : require
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int dot_four(uint a, uint b, spirv_literal int format);
#define DOT4(a, b) dot_four(a, b, 0)
#else
int dot_four(uint a, uint b) {
  const ivec4 left = ivec4(a << 24, a << 16, a << 8, a) >> 24, right = ivec4(b << 24, b << 16, b << 8, b) >> 24;
  const ivec4 products = left * right;
  return products.x + products.y + products.z + products.w;
}
#define DOT4(a, b) dot_four(a, b)
#endif

layout(std430, set = 0, binding = 1) readonly buffer Activations { uvec4 activations[]; };
layout(std430, set = 0, binding = 2) readonly buffer Bias { float bias[]; };
layout(std430, set = 0, binding = 3) readonly buffer Live { int live[]; };
layout(std430, set = 0, binding = 4) readonly buffer Groups { int groups[]; };
layout(std430, set = 0, binding = 5) writeonly buffer Out { float result[]; };

layout(push_constant) uniform Numbers {
  int axis;
  uint rows;           // of the matrix, or of what is wanted of each expert's
  uint pieces;         // in a row
  uint first_tile;     // of the matrix in the bound weights; experts: tile of the first wanted row
  uint skip;           // rows of the first tile that are not wanted
  uint first_row;      // of the result that the bound weights give
  uint width;          // of a row of the result
  uint matrix_tiles;   // experts: tiles of a matrix
  uint first_matrix;   // experts: the first that is bound
  uint matrices;       // experts: how many are bound
  uint all_matrices;   // experts: how many there are
  uint used;           // experts: slots of a row
  uint inner;          // experts: rows of activations for each row: 1 or `used`
};

#ifdef FLOATS
#define X_STRIDE (2u * pieces)
#else
#define X_STRIDE (2u * pieces + pieces / 2u)
#endif

const int kNowhere = -1;

// Columns that one workgroup multiplies with one matrix.
struct Columns {
  uint matrix;  // among those bound
  uint first;   // a column; experts: a place in the order of columns by expert
  uint count;   // 0: none
  bool absent;  // there is no such expert
};

// Experts: group_experts.comp has made groups of at most as many columns as are taken at once.
Columns columns_of(uint at, uint most, bool experts) {
  Columns c = Columns(0u, at * most, 0u, false);
  if (!experts) {
    const uint rows_live = uint(max(live[axis], 0));
    c.count = c.first < rows_live ? min(most, rows_live - c.first) : 0u;
    return c;
  }
  if (int(at) >= groups[0]) return c;
  const uint expert = uint(groups[4u + 3u * at]);
  c.first = uint(groups[4u + 3u * at + 1u]);
  c.absent = expert >= all_matrices;
  c.matrix = c.absent ? 0u : expert - first_matrix;
  if (c.absent ? first_matrix == 0u : expert >= first_matrix && c.matrix < matrices) c.count = uint(groups[4u + 3u * at + 2u]);
  return c;
}

// A block in the making: what its pieces give.
#if defined(FLOATS) || defined(WIDE)
struct Block { float sum; };
const Block NOTHING = Block(0.0);
#else
struct Block { int whole, minimums; };
const Block NOTHING = Block(0, 0);
#endif

#ifdef FLOATS
#if defined(F32)
#include "fused.glsl"
#elif defined(F16)
vec2 both(uint word) { return unpackHalf2x16(word); }
#elif defined(BF16)
vec2 both(uint word) { return uintBitsToFloat(uvec2(word << 16, word & 0xffff0000u)); }
#endif

float add_words(float sum, uvec4 w, uvec4 x) {
  precise float s = sum;
  for (int i = 0; i < 4; i++) {
#ifdef F32
    s = fma_of(uintBitsToFloat(w[i]), uintBitsToFloat(x[i]), s);
#else  // products of halves are exact in float
    const vec2 a = both(w[i]), b = both(x[i]);
    s = fma(a.x, b.x, s);
    s = fma(a.y, b.y, s);
#endif
  }
  return s;
}

Block with_piece(Block b, Piece w, uvec4 low, uvec4 high, uvec2 scale) {
  return Block(add_words(add_words(b.sum, w.low, low), w.high, high));
}

vec2 terms_of(Block b, Piece w, uvec2 scale) { return vec2(b.sum, 0.0); }
#else
int dot_words(uvec4 a, uvec4 b) { return DOT4(a.x, b.x) + DOT4(a.y, b.y) + DOT4(a.z, b.z) + DOT4(a.w, b.w); }

ivec2 halves_of(uint factor) { return ivec2(int(factor << 16) >> 16, int(factor) >> 16); }

// `scale`: of the activations' piece, with its offset factor.
Block with_piece(Block b, Piece w, uvec4 low, uvec4 high, uvec2 scale) {
#ifdef SUPER
  b.whole += w.scales.x * dot_words(w.low, low) + w.scales.y * dot_words(w.high, high);
  const ivec2 minimums = w.minimums * halves_of(scale.y);
  b.minimums += minimums.x + minimums.y;
#else
  const int whole = dot_words(w.low, low) + dot_words(w.high, high);
#ifdef WIDE
  precise float sum = b.sum + uintBitsToFloat(scale.x) * float(whole);
  b.sum = sum;
#else
  b.whole = whole;
#endif
#endif
  return b;
}

// What a whole block adds to the sum of its row, and what it then takes away if there are minimums; its last piece.
vec2 terms_of(Block b, Piece w, uvec2 scale) {
  const float a = uintBitsToFloat(scale.x);
#ifdef WIDE
  precise float term = w.d * b.sum;
  return vec2(term, 0.0);
#else
  precise float term = (w.d * a) * float(b.whole);
#ifdef SUPER
  precise float offset = (w.m * a) * float(b.minimums);
#else
  precise float offset = w.m * uintBitsToFloat(scale.y);
#endif
  return vec2(term, offset);
#endif
}
#endif

float with_terms(float sum, vec2 terms) {
  precise float s = sum + terms.x;
#if defined(MINIMUM) || defined(MINIMUMS)
  s = s - terms.y;
#endif
  return s;
}
