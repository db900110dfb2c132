// Attention of a tile of queries that read the same keys: what the shaders of attention share. One that includes this has
// included merge.glsl, and declared its constants (KEY_DIM, VALUE_DIM, HEADS, ROWS, SCORED, SUMMED, PARTIAL, APART), its buffers, and
//
//   bool lead()                        whether this workgroup has a tile: sets `rows`, `low` and `high`
//   uint result_row(uint q)            where a query's result lies, in rows of VALUE_DIM
//   int first_of(uint q), last_of(q)   the positions that it attends
//   float query_value(uint q, uint d)
//   uint key_base(int at), vec4 key_quad(uint base, uint quad)  four dimensions of the key at a position
//   vec2 value_pair(int at, uint pair)                          two of its value
//   uint partial(uint q, int begin)    PARTIAL: where a query's result of a range lies
//   scale, softcap
//
// Positions are cut into ranges of RANGE from 0 on. Within a range: all scores, their largest, weights e^(score -
// largest), and sums over the range's chunks of CHUNK positions, which are added in order. Ranges are added in order
// (`merge.glsl`), here, or, where a row's ranges are shared between workgroups (PARTIAL), by attention_merge.comp. So
// every sum has an order that only positions decide; which rows share a tile, and who computes a range, leaves no trace.

const uint CHUNK = 32, CHUNKS = RANGE / CHUNK, LANES = 16;
const uint SCORE_GROUPS = (HEADS * ROWS + SCORED - 1) / SCORED, SUM_GROUPS = (HEADS * ROWS + SUMMED - 1) / SUMMED;
const uint QUERIES = SCORE_GROUPS * SCORED > SUM_GROUPS * SUMMED ? SCORE_GROUPS * SCORED : SUM_GROUPS * SUMMED;
const uint QUADS = (KEY_DIM + 3) / 4, PAIRS = (VALUE_DIM + 1) / 2;
const float MASKED = -1.0;  // in place of a weight

shared vec4 query[QUERIES * QUADS];
shared vec4 weight[QUERIES * RANGE / 4];  // scores, then weights, of each query in turn
shared float lanes[QUERIES * LANES];
shared float largest[QUERIES], total[QUERIES];           // over the ranges so far
shared float range_largest[QUERIES], range_total[QUERIES];
shared vec2 factors[QUERIES];
// PARTIAL and APART: [chunks, queries, pairs]; not PARTIAL: [queries, pairs], over the ranges so far
shared vec2 sums[PARTIAL ? (APART ? CHUNKS * SUM_GROUPS * SUMMED * PAIRS : 1) : SUM_GROUPS * SUMMED * PAIRS];

bool attends(uint q, int at) { return at >= first_of(q) && at <= last_of(q); }

// Whether a query attends anything of a range.
bool has_part(uint q, int begin) { return begin <= last_of(q) && begin + int(RANGE) > first_of(q); }

void take_queries() {
  for (uint i = gl_LocalInvocationID.x; i < QUERIES * QUADS; i += gl_WorkGroupSize.x) {
    const uint q = i / QUADS, d = i % QUADS * 4;
    vec4 x = vec4(0.0);
    [[unroll]] for (uint j = 0; j < 4; j++)
      if (q < rows * HEADS && d + j < KEY_DIM) x[j] = query_value(q, d + j);
    query[i] = x;
  }
}

void score(int begin) {
  for (uint i = gl_LocalInvocationID.x; i < SCORE_GROUPS * RANGE; i += gl_WorkGroupSize.x) {
    const uint q = i / RANGE * SCORED, key = i % RANGE;
    const int at = begin + int(key);
    if (q >= rows * HEADS || at < low || at > high) continue;
    const uint base = key_base(at);
    vec4 s[SCORED];
    [[unroll]] for (uint j = 0; j < SCORED; j++) s[j] = vec4(0.0);
    for (uint quad = 0; quad < QUADS; quad++) {
      const vec4 k = key_quad(base, quad);
      [[unroll]] for (uint j = 0; j < SCORED; j++) {
        precise vec4 sum = fma(query[(q + j) * QUADS + quad], k, s[j]);
        s[j] = sum;
      }
    }
    [[unroll]] for (uint j = 0; j < SCORED; j++) {
      precise float x = (s[j].x + s[j].y) + (s[j].z + s[j].w);
      x = x * scale;
      if (softcap > 0.0) x = softcap * tanh_of(x / softcap);
      weight[((q + j) * RANGE + key) / 4][key % 4] = x;
    }
  }
}

void weigh(int begin) {
  const uint items = rows * HEADS * LANES;
  for (uint i = gl_LocalInvocationID.x; i < items; i += gl_WorkGroupSize.x) {
    const uint q = i / LANES;
    float m = NOTHING;
    for (uint key = i % LANES; key < RANGE; key += LANES)
      if (attends(q, begin + int(key))) {
        const float x = weight[(q * RANGE + key) / 4][key % 4];
        m = x > m ? x : m;
      }
    lanes[i] = m;
  }
  barrier();
  for (uint q = gl_LocalInvocationID.x; q < rows * HEADS; q += gl_WorkGroupSize.x) {
    float m = lanes[q * LANES];
    for (uint lane = 1; lane < LANES; lane++) m = lanes[q * LANES + lane] > m ? lanes[q * LANES + lane] : m;
    range_largest[q] = m;
  }
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < items; i += gl_WorkGroupSize.x) {
    const uint q = i / LANES;
    precise float sum = 0.0;
    for (uint key = i % LANES; key < RANGE; key += LANES) {
      const uint at = (q * RANGE + key) / 4;
      float e = MASKED;
      if (attends(q, begin + int(key))) {
        e = exp_of(weight[at][key % 4] - range_largest[q]);
        sum = sum + e;
      }
      weight[at][key % 4] = e;
    }
    lanes[i] = sum;
  }
  barrier();
  for (uint q = gl_LocalInvocationID.x; q < rows * HEADS; q += gl_WorkGroupSize.x) {
    precise float sum = lanes[q * LANES];
    for (uint lane = 1; lane < LANES; lane++) sum = sum + lanes[q * LANES + lane];
    range_total[q] = sum;
    if (!PARTIAL && has_part(q, begin)) {
      float m = largest[q];
      factors[q] = merge_factors(m, range_largest[q]);
      largest[q] = m;
      total[q] = merged(total[q], sum, factors[q]);
    }
  }
}

// Sums of weight * value of one pair of dimensions over a chunk, for SUMMED queries from q on.
void sum_chunk(uint q, uint pair, uint chunk, int begin, bool full, out vec2 s[SUMMED]) {
  [[unroll]] for (uint j = 0; j < SUMMED; j++) s[j] = vec2(0.0);
  for (uint key = chunk * CHUNK; key < (chunk + 1) * CHUNK; key += 4) {
    const int at = begin + int(key);
    if (at + 3 < low || at > high) continue;
    [[unroll]] for (uint e = 0; e < 4; e++) {
      const vec2 v = value_pair(at + int(e), pair);
      [[unroll]] for (uint j = 0; j < SUMMED; j++) {
        const float w = weight[((q + j) * RANGE + key) / 4][e];
        precise vec2 sum = fma(vec2(w), v, s[j]);
        if (full || w >= 0.0 || is_nan(w)) s[j] = sum;
      }
    }
  }
}

void write_pair(uint at, uint pair, vec2 x) {
  result[at + 2 * pair] = x.x;
  if (2 * pair + 1 < VALUE_DIM) result[at + 2 * pair + 1] = x.y;
}

// All chunks of a pair by one thread.
void sum_values(int begin, bool full) {
  for (uint i = gl_LocalInvocationID.x; i < SUM_GROUPS * PAIRS; i += gl_WorkGroupSize.x) {
    const uint q = i / PAIRS * SUMMED, pair = i % PAIRS;
    if (q >= rows * HEADS) continue;
    vec2 s[SUMMED], chunk_sum[SUMMED];
    sum_chunk(q, pair, 0, begin, full, s);
    for (uint chunk = 1; chunk < CHUNKS; chunk++) {
      sum_chunk(q, pair, chunk, begin, full, chunk_sum);
      [[unroll]] for (uint j = 0; j < SUMMED; j++) {
        precise vec2 added = s[j] + chunk_sum[j];
        s[j] = added;
      }
    }
    [[unroll]] for (uint j = 0; j < SUMMED; j++) {
      if (q + j >= rows * HEADS || !has_part(q + j, begin)) continue;
      if (PARTIAL) {
        write_pair(partial(q + j, begin) + 2, pair, s[j]);
      } else {
        const uint at = (q + j) * PAIRS + pair;
        sums[at] = vec2(merged(sums[at].x, s[j].x, factors[q + j]), merged(sums[at].y, s[j].y, factors[q + j]));
      }
    }
  }
}

// Each chunk of a pair by another thread: for few queries.
void sum_values_apart(int begin, bool full) {
  const uint items = SUM_GROUPS * PAIRS, stride = SUM_GROUPS * SUMMED * PAIRS;
  for (uint i = gl_LocalInvocationID.x; i < CHUNKS * items; i += gl_WorkGroupSize.x) {
    const uint chunk = i / items, q = i % items / PAIRS * SUMMED, pair = i % PAIRS;
    if (q >= rows * HEADS) continue;
    vec2 s[SUMMED];
    sum_chunk(q, pair, chunk, begin, full, s);
    [[unroll]] for (uint j = 0; j < SUMMED; j++) sums[chunk * stride + (q + j) * PAIRS + pair] = s[j];
  }
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < rows * HEADS * PAIRS; i += gl_WorkGroupSize.x) {
    const uint q = i / PAIRS;
    if (!has_part(q, begin)) continue;
    precise vec2 s = sums[i];
    for (uint chunk = 1; chunk < CHUNKS; chunk++) s = s + sums[chunk * stride + i];
    write_pair(partial(q, begin) + 2, i % PAIRS, s);
  }
}

void main() {
  if (!lead()) return;
  take_queries();
  if (!PARTIAL) {
    for (uint i = gl_LocalInvocationID.x; i < rows * HEADS * PAIRS; i += gl_WorkGroupSize.x) sums[i] = vec2(0.0);
    for (uint q = gl_LocalInvocationID.x; q < rows * HEADS; q += gl_WorkGroupSize.x) {
      largest[q] = NOTHING;
      total[q] = 0.0;
    }
  }
  const int step = int(gl_NumWorkGroups.x * RANGE);
  for (int begin = (low / int(RANGE) + int(gl_WorkGroupID.x)) * int(RANGE); begin <= high; begin += step) {
    barrier();
    score(begin);
    barrier();
    weigh(begin);
    barrier();
    const bool full = begin >= first_of((rows - 1) * HEADS) && begin + int(RANGE) - 1 <= last_of(0);
    if (APART) sum_values_apart(begin, full);
    else sum_values(begin, full);
    if (PARTIAL)
      for (uint q = gl_LocalInvocationID.x; q < rows * HEADS; q += gl_WorkGroupSize.x)
        if (has_part(q, begin)) {
          result[partial(q, begin)] = range_largest[q];
          result[partial(q, begin) + 1] = range_total[q];
        }
  }
  if (PARTIAL) return;
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < rows * HEADS * PAIRS; i += gl_WorkGroupSize.x) {
    const uint q = i / PAIRS;
    write_pair(result_row(q) * VALUE_DIM, i % PAIRS, sums[i] / total[q]);
  }
}
