// Sums of a tile's weights, `weight` [queries, RANGE], with a range of values. One that includes this has included
// attention.glsl, and declared the constants VALUE_DIM and SUMMED (queries whose sums of one pair of dimensions a thread makes
// together), the buffer Values, and the shared `weight`.
#include "unpack.glsl"

const uint CHUNKS = RANGE / CHUNK;
const uint VALUE_WORDS = (VALUE_DIM + 1) / 2, PAIRS = VALUE_WORDS;
const uint SUM_GROUPS = (HEADS * ROWS + SUMMED - 1) / SUMMED;

// Whether all of the tile's queries attend a whole range.
bool attended_by_all(int begin) {
  return begin >= first_of((rows - 1) * HEADS) && begin + int(RANGE) - 1 <= last_of(0);
}

// Sums of weight * value of one pair of dimensions over a chunk, for SUMMED queries from q on.
void sum_chunk(uint q, uint pair, uint chunk, int begin, bool full, out vec2 s[SUMMED]) {
  [[unroll]] for (uint j = 0; j < SUMMED; j++) s[j] = vec2(0.0);
  const uint cells = (uint(slot) * kv_heads + kv_head) * CELLS;
  for (uint key = chunk * CHUNK; key < (chunk + 1) * CHUNK; key += 4) {
    const int at = begin + int(key);
    if (at + 3 < low || at > high) continue;
    [[unroll]] for (uint e = 0; e < 4; e++) {
      const vec2 v = halves(values[(cells + uint(at + int(e)) % CELLS) * VALUE_WORDS + pair]);
      [[unroll]] for (uint j = 0; j < SUMMED; j++) {
        const float w = weight[(q + j) * RANGE + key + e];
        precise vec2 sum = fma(vec2(w), v, s[j]);
        if (full || w >= 0.0 || is_nan(w)) s[j] = sum;
      }
    }
  }
}
