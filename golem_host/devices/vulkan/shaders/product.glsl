// What the two product shaders share: how a piece of weights meets a piece of activations, and which columns a
// workgroup takes. The order of sums is that of the CPU's kernels (product_blocks.cpp, panel.h), to the bit: a row is
// added up block after block, in their order, without fused steps. A block adds
//
//   (d * a) * float(whole), then -m * sum if its type has a minimum        one piece; a, sum: of the activations
//   d * (((0 + a * float(whole)) + a * float(whole)) + ...)                WIDE: for each of its pieces
//   (d * a) * float(whole), then -(m * a) * float(minimums)                SUPER: whole numbers of all its pieces
//   fma(w, x, ... fma(w, x, 0))                                            FLOATS: a span of SPAN inputs
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

// A row's sum in the making: of whole blocks, and what there is of the block that is being read.
struct Sum {
  float total;
#ifdef SUPER
  int whole, minimums;
#else
  float block;
#endif
};

#ifdef SUPER
const Sum NOTHING = Sum(0.0, 0, 0);
#else
const Sum NOTHING = Sum(0.0, 0.0);
#endif

#ifdef FLOATS
#define SPAN (512u / PIECE)  // pieces

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

float add_piece(float sum, Piece w, uvec4 low, uvec4 high) { return add_words(add_words(sum, w.low, low), w.high, high); }

Sum with_block(Sum s) {
  precise float total = s.total + s.block;
  return Sum(total, 0.0);
}
#else
int dot_words(uvec4 a, uvec4 b) { return DOT4(a.x, b.x) + DOT4(a.y, b.y) + DOT4(a.z, b.z) + DOT4(a.w, b.w); }

ivec2 halves_of(uint factor) { return ivec2(int(factor << 16) >> 16, int(factor) >> 16); }

// What a piece gives to a sum: one word, or two if there are minimums.
#if defined(MINIMUM) || defined(MINIMUMS)
#define WORDS 2
#else
#define WORDS 1
#endif

uvec2 term_of(Piece w, uvec4 low, uvec4 high, uint scale, uint factor) {
#ifdef SUPER
  const int whole = w.scales.x * dot_words(w.low, low) + w.scales.y * dot_words(w.high, high);
  const ivec2 minimums = w.minimums * halves_of(factor);
  return uvec2(whole, minimums.x + minimums.y);
#else
  const float whole = float(dot_words(w.low, low) + dot_words(w.high, high)), a = uintBitsToFloat(scale);
#ifdef WIDE
  precise float term = a * whole;
#else
  precise float term = (w.d * a) * whole;
#endif
  precise float offset = w.m * uintBitsToFloat(factor);
  return floatBitsToUint(vec2(term, offset));
#endif
}

Sum with_term(Sum s, uvec2 term) {
#if defined(SUPER)
  s.whole += int(term.x);
  s.minimums += int(term.y);
#elif defined(WIDE)
  precise float block = s.block + uintBitsToFloat(term.x);
  s.block = block;
#else
  precise float total = s.total + uintBitsToFloat(term.x);
#ifdef MINIMUM
  total = total - uintBitsToFloat(term.y);
#endif
  s.total = total;
#endif
  return s;
}

// What the last term of a block is followed by: `scales_of` it.
#if BLOCK > 1
vec2 scales_of(float d, float m, uint scale) {
#ifdef SUPER
  precise vec2 scales = vec2(d, m) * uintBitsToFloat(scale);
  return scales;
#else
  return vec2(d, 0.0);
#endif
}

Sum with_block(Sum s, vec2 scales) {
#ifdef SUPER
  precise float total = s.total + scales.x * float(s.whole);
#ifdef MINIMUMS
  total = total - scales.y * float(s.minimums);
#endif
  return Sum(total, 0, 0);
#else
  precise float total = s.total + scales.x * s.block;
  return Sum(total, 0.0);
#endif
}
#endif
#endif
