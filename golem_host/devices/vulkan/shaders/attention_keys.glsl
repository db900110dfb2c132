// Scores of a tile's queries with a range of keys, into `weight` [queries, RANGE]. One that includes this has included
// attention.glsl, and declared the constants KEY_DIM, SCORED (queries whose scores with one key a thread sums together) and
// HAS_SOFTCAP, the buffers Queries and Keys, the numbers scale and softcap, and the shared `weight`.
#include "half.glsl"
#include "math.glsl"
#include "unpack.glsl"

const uint KEY_WORDS = (KEY_DIM + 1) / 2, QUADS = (KEY_DIM + 3) / 4;
const uint SCORE_GROUPS = (HEADS * ROWS + SCORED - 1) / SCORED;

shared vec4 query[SCORE_GROUPS * SCORED * QUADS];

void take_queries() {
  for (uint i = gl_LocalInvocationID.x; i < SCORE_GROUPS * SCORED * QUADS; i += gl_WorkGroupSize.x) {
    const uint q = i / QUADS, d = i % QUADS * 4;
    vec4 x = vec4(0.0);
    [[unroll]] for (uint j = 0; j < 4; j++)
      if (q < rows * HEADS && d + j < KEY_DIM) x[j] = rounded_to_half(queries[head_of(q) * KEY_DIM + d + j]);
    query[i] = x;
  }
}

void score(int begin) {
  for (uint i = gl_LocalInvocationID.x; i < SCORE_GROUPS * RANGE; i += gl_WorkGroupSize.x) {
    const uint q = i / RANGE * SCORED, key = i % RANGE;
    const int at = begin + int(key);
    if (q >= rows * HEADS || at < low || at > high) continue;
    const uint base = first_key(uint(slot) * kv_heads + kv_head, CELLS, KEY_WORDS) + key_word(uint(at) % CELLS, 0, KEY_WORDS);
    float s[SCORED];
    [[unroll]] for (uint j = 0; j < SCORED; j++) s[j] = 0.0;
    for (uint quad = 0; quad < QUADS; quad++) {
      const uint second = 2 * quad + 1 < KEY_WORDS ? keys[base + (2 * quad + 1) * BLOCK_CELLS] : 0u;
      const vec4 k = vec4(halves(keys[base + 2 * quad * BLOCK_CELLS]), halves(second));
      [[unroll]] for (uint j = 0; j < SCORED; j++) {
        const vec4 x = query[(q + j) * QUADS + quad];
        precise float sum = fma(x.w, k.w, fma(x.z, k.z, fma(x.y, k.y, fma(x.x, k.x, s[j]))));
        s[j] = sum;
      }
    }
    [[unroll]] for (uint j = 0; j < SCORED; j++) {
      precise float x = s[j] * scale;
      if (HAS_SOFTCAP) x = softcap * tanh_of(quotient(x, softcap));
      if (q + j < rows * HEADS) weight[(q + j) * RANGE + key] = x;
    }
  }
}
