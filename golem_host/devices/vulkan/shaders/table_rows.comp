// Rows of a laid table at the ids of the live rows, as float32 [rows, width]. A lane writes the values of one piece.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "formats.glsl"

layout(local_size_x_id = 0) in;
layout(std430, set = 0, binding = 1) readonly buffer Ids { int ids[]; };
layout(std430, set = 0, binding = 2) readonly buffer Live { int live[]; };
layout(std430, set = 0, binding = 3) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint width;
  uint pieces;      // in a row
  uint first_row;   // of the table that is bound
  uint bound_rows;  // how many are bound
  uint all_rows;    // of the table
};

void main() {
  const uint at = gl_WorkGroupID.y, piece = gl_GlobalInvocationID.x;
  if (int(at) >= live[axis] || piece >= pieces) return;
  const uint id = uint(ids[at]), row = id - first_row;
  const bool absent = id >= all_rows;
  if (absent ? first_row != 0u : id < first_row || row >= bound_rows) return;
  const Piece w = piece_at((absent ? 0u : row / 8u) * pieces * EIGHT_PIECES, pieces, piece, row % 8u);
  for (uint i = 0u; i < PIECE && piece * PIECE + i < width; i++) {
#if defined(F32)
    const uint word = i;
#elif defined(FLOATS)
    const uint word = i / 2u;
#else
    const uint word = i / 4u;
#endif
    const uint bits = word < 4u ? w.low[word] : w.high[word - 4u];
#if defined(F32)
    precise float value = uintBitsToFloat(bits);
#elif defined(F16)
    precise float value = half_value((bits >> (16u * (i & 1u))) & 0xffffu);
#elif defined(BF16)
    precise float value = uintBitsToFloat((bits >> (16u * (i & 1u))) << 16);
#else
    const int code = int(bits << (24u - 8u * (i & 3u))) >> 24;
#ifdef SUPER
    const float scale = w.d * float(w.scales[i / 16u]);
#else
    const float scale = w.d;
#endif
    precise float value = scale * float(code);
#if defined(MINIMUM)
    value = value - w.m;
#elif defined(MINIMUMS)
    value = value - w.m * float(w.minimums[i / 16u]);
#endif
#endif
    if (absent) value = uintBitsToFloat(0x7fc00000u);
    result[at * width + piece * PIECE + i] = value;
  }
}
