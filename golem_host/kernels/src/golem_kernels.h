/* The native CPU kernels of golem-host: the contract between the library and its callers.
 *
 * A recorded pass is a flat array of golem_cmd that golem_run replays in order, with no call back into
 * the caller. Every matrix is row-major float32 unless a slot says otherwise, one row per column of the
 * pass (a token). The live row count R of a command is live[axis] when axis >= 0, else rows; with
 * axis >= 0, rows is the capacity of the command's buffers and a live count outside 0..rows is
 * GOLEM_E_ROWS. R = 0 makes a command do nothing. Unused slots are zero. "ggml type" numbers are those
 * of GGUF files. Buffers must not overlap unless a command says that it may work in place.
 *
 * Law: the bits of a row of any result depend on that row's inputs alone, never on R, on the other rows,
 * on the number of threads, or on how the work was cut. Quantized products, moreover, have the same bits
 * on every instruction set.
 *
 * The text between the cdef marks is what the Python binding declares. */
#ifndef GOLEM_KERNELS_H
#define GOLEM_KERNELS_H

#include <stdint.h>

#define GOLEM_ABI 5

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* the library hides everything else */

/* cdef begin */
typedef struct golem_pool golem_pool;
typedef struct golem_cmd {
  int32_t op;   /* golem_op */
  int32_t axis; /* entry of live[] that holds the row count, or -1 */
  int64_t rows; /* row count (axis < 0) or capacity in rows (axis >= 0) */
  void *p[8];
  int64_t i[16];
  double f[8];
} golem_cmd;

typedef struct golem_route { /* an expert that a row chose, and the weight of what it gives */
  int32_t expert;
  float weight;
} golem_route;

typedef struct golem_draw_rules {
  int64_t top_k;     /* > 0 */
  int64_t min_keep;  /* what top_p and min_p leave at least */
  float top_p;       /* 1: off */
  float ln_min_p;    /* -infinity: off */
  float temperature; /* > 0 */
} golem_draw_rules;

enum golem_op {
  /* out[R,n] = dequantized rows of a table.
   * p: 0 out, 1 ids int32[R], 2 table.  i: 0 n, 1 ggml type, 2 row stride in bytes, 3 rows of the table.
   * An id outside the table: GOLEM_E_ID, nothing written. */
  GOLEM_OP_ROWS = 1,
  /* out = R * inner activation rows of golem_act_bytes(kind, n) bytes each, quantized from x f32[R,inner,n].
   * p: 0 out, 1 x.  i: 0 n, 1 golem_act, 2 inner (activation rows per live row; 0 means one). */
  GOLEM_OP_ACT = 2,
  /* out[R,m] = x[R,k] . W[m,k]^T + bias.
   * p: 0 out, 1 x (activation rows of golem_act_kind(type)), 2 W (rows packed as in a GGUF file, or re-laid), 3 bias f32[m] or NULL.
   * i: 0 m, 1 k, 2 ggml type, 3 one if W was re-laid by GOLEM_OP_LAY, else 0; the bits are the same, 4 one if the next command is
   * a MATMUL too and may run at the same time (neither reads what the other writes), 5 one if x is f32[R,k] that was not
   * rounded to the type of W, which is F16 or BF16 then, 6 the first output to compute (a multiple of golem_tile_rows),
   * 7 how many (0: all m). When one of those that run together fails, none of them has run. */
  GOLEM_OP_MATMUL = 3,
  /* out[R*inner,n] = x / sqrt(mean(x^2) + eps) * weight.  May work in place.
   * p: 0 out, 1 x, 2 weight f32[n] or NULL.  i: 0 n, 1 inner (norms per live row: heads, else 1).  f: 0 eps. */
  GOLEM_OP_RMS_NORM = 4,
  /* out f32[R,n_rot/2,2] = (cos, sin) of every position.
   * p: 0 out, 1 positions int32[R], or int32[R,4] with several axes (time, height, width, extra),
   *    2 factors f32[n_rot/2] (divide the angle) or NULL.
   * i: 0 n_rot, 1 n_ctx_orig (YaRN), 2 golem_axes, 3..6 with several axes: pairs in the section of each, n_rot/2 in all
   *    at most.
   * f: 0 base, 1 freq_scale, 2 ext_factor (0: no YaRN), 3 attn_factor (magnitude; plain: 1), 4 beta_fast, 5 beta_slow.
   * With ext_factor != 0 the magnitude is attn_factor * (1 + 0.1 ln(1 / freq_scale)). */
  GOLEM_OP_ROPE_ANGLES = 5,
  /* out f32[R,heads,hd] = x rotated by the angles; dims >= n_rot are copied.  May work in place.
   * p: 0 out, 1 x, 2 angles f32[R,n_rot/2,2].  i: 0 heads, 1 hd, 2 n_rot, 3 golem_rope. */
  GOLEM_OP_ROPE = 6,
  /* Writes k and v, rounded to the type of the slot caches, at cell position % ring.
   * Cache type 0: f16; 1: f32, laid out alike; 8: q8_0 (hd and vd whole blocks of 32). Values are f16 [slots,kv_heads,ring,vd], or in q8_0 rows of
   * vd int8 codes and vd / 32 half scales. Keys lie in blocks of 16 cells, ring rounded up to whole ones: f16 [slots,kv_heads,
   * ring / 16,hd,16], or in q8_0 blocks of int8 [hd / 4,16,4] and half scales [hd / 32,16].
   * p: 0 k cache, 1 v cache, 2 k f32[R,kv_heads,hd], 3 v f32[R,kv_heads,vd], 4 slot int32[R], 5 position int32[R].
   * i: 0 kv_heads, 1 hd, 2 vd (both up to 1024), 3 ring, 4 slots, 5 cache type.
   * GOLEM_E_SLOT, GOLEM_E_POSITION (negative): nothing written. */
  GOLEM_OP_STORE = 7,
  /* out f32[R,heads,vd] = softmax(scale * q . k) v over positions max(0, last - window + 1) .. pos of the row's slot, where last is
   * pos, or with blocks of positions the last of the block that pos lies in.
   * Head h reads kv head h / (heads / kv_heads). Values are summed in the order of their positions. Over f16 caches queries and
   * softmaxed weights are rounded to float16, as ggml does without flash attention; over q8_0 queries are rounded to q8_0 and
   * weights are not, as with it; over f32 nothing is rounded. softcap > 0: scores become softcap * tanh(score / softcap).
   * p: 0 out, 1 q f32[R,heads,hd], 2 k cache, 3 v cache, 4 slot int32[R], 5 position int32[R].
   * i: 0 heads, 1 kv_heads, 2 hd, 3 vd, 4 ring, 5 slots, 6 window (0: all), 7 cache type, 8 block (0: one position).
   * f: 0 scale, 1 softcap (0: none).
   * GOLEM_E_SLOT; GOLEM_E_POSITION (negative, or more positions attended than the ring holds). */
  GOLEM_OP_ATTN = 8,
  /* out[R,n] = act(gate) * up.  out may be gate or up.
   * p: 0 out, 1 gate, 2 up or NULL, for ones.  i: 0 n, 1 golem_gate. */
  GOLEM_OP_GATE = 9,
  /* out[R,n] = a + b.  out may be a or b.  p: 0 out, 1 a, 2 b.  i: 0 n, 1 one if b is a single row f32[n], else 0. */
  GOLEM_OP_ADD = 10,
  /* out[R,n] = a * b; slots as GOLEM_OP_ADD. */
  GOLEM_OP_MUL = 11,
  /* out[R,n] = x * f[0].  May work in place.  p: 0 out, 1 x.  i: 0 n. */
  GOLEM_OP_SCALE = 12,
  /* out[R,n] = cap * tanh(x / cap).  May work in place.  p: 0 out, 1 x.  i: 0 n.  f: 0 cap. */
  GOLEM_OP_SOFTCAP = 13,
  /* out[R,n] = x[index[r]].
   * p: 0 out, 1 x, 2 index int32[R].  i: 0 n, 1 axis whose live count is the number of rows of x, or -1, 2 that number when i[1] < 0.
   * An index outside x: GOLEM_E_INDEX, nothing written. */
  GOLEM_OP_SELECT = 14,
  /* out[R,groups,n] = values first .. first + n of the groups of x[R,groups,width].
   * p: 0 out, 1 x.  i: 0 n, 1 groups (0: one), 2 width (0: n), 3 first. */
  GOLEM_OP_COPY = 15,
  /* out[R,n] = silu(sum over k < width of weight[k] * (the channel's input width - 1 - k rows before)): a causal
   * convolution along the positions of each row's slot, each channel by itself.
   * The state of a slot is the inputs of its last width - 1 positions, oldest first. Rows of one slot come in the order of
   * their positions: the first of a pass at taken[slot], or at 0 from a state of zeros, each other one right after the one
   * before; rows of different slots may be mixed. Then taken[slot] is the position after the last.
   * p: 0 out, 1 x f32[R,n], 2 weight f32[width,n], 3 state f32[slots,width-1,n], 4 taken int32[slots] (positions the
   *    states have seen), 5 slot int32[R], 6 position int32[R].
   * i: 0 n, 1 width (2..16), 2 slots (1..2^20).
   * GOLEM_E_SLOT, GOLEM_E_POSITION (not in that order): nothing written; so a pass replayed by mistake is refused. */
  GOLEM_OP_CONV = 16,
  /* The gated delta rule: with S f32[key_dim,value_dim] the state of value head h of the row's slot, q and k of key head
   * h % key_heads, S = decay * S, S = S + k (beta * (v - S^T k))^T, out[R,value_heads,value_dim] = scale * S^T q.
   * Slots, positions and states: as GOLEM_OP_CONV. The sums over key_dim are taken in its order.
   * p: 0 out, 1 qkv f32[R, key_heads*key_dim queries, key_heads*key_dim keys, value_heads*value_dim values],
   *    2 decay f32[R,value_heads], 3 beta f32[R,value_heads], 4 state f32[slots,value_heads,key_dim,value_dim],
   *    5 taken int32[slots], 6 slot int32[R], 7 position int32[R].
   * i: 0 key_heads, 1 value_heads (a multiple), 2 key_dim (1..256), 3 value_dim, 4 slots.  f: 0 scale. */
  GOLEM_OP_DELTA = 17,
  /* out golem_route[R,used] = the used largest of each row of logits, largest first, ties by lower expert, NaN last;
   * weight = golem_weighting of the logits * f[0] * scale[expert].
   * p: 0 out, 1 logits f32[R,experts], 2 scale f32[experts] or NULL.  i: 0 experts (up to 65536), 1 used, 2 golem_weighting.
   * f: 0 factor. */
  GOLEM_OP_ROUTE = 18,
  /* out f32[R,used,m] = x . W[expert]^T: of each row and slot with the matrix of the expert that it chose, with the bits of
   * GOLEM_OP_MATMUL. Each chosen matrix is read once for all that chose it.
   * p: 0 out, 1 x (activation rows of golem_act_kind(type), [R,inner]), 2 routes golem_route[R,used],
   *    3 W (matrices [experts,stride,k] packed as in a GGUF file, or each re-laid, golem_laid_bytes(type, stride, k) apart).
   * i: 0 m, 1 k, 2 ggml type, 3 experts (up to 65536), 4 used, 5 inner (1: the slots of a row share x; used: one x a slot),
   *    6 stride (rows of each expert's matrix), 7 first (row of it where the m rows begin), 8 one if the matrices were re-laid by
   *    GOLEM_OP_LAY (then first is where a tile begins, else GOLEM_E_SHAPE), else 0.
   * An expert that is not there: GOLEM_E_ID, nothing written. */
  GOLEM_OP_EXPERTS = 19,
  /* out f32[R,n] = sum over the slots, in their order, of weight * y.  p: 0 out, 1 y f32[R,used,n], 2 routes golem_route[R,used].
   * i: 0 n, 1 used. */
  GOLEM_OP_MIX = 20,
  /* out[R,width] = x with each of its first groups of n values divided by sqrt(sum(x^2) + eps).  May work in place.
   * p: 0 out, 1 x.  i: 0 n, 1 groups, 2 width.  f: 0 eps. */
  GOLEM_OP_L2_NORM = 21,
  /* out[R,n] = exp(rate * softplus(x + bias)), softplus(x) = ln(1 + e^x), x itself above 20.  May work in place.
   * p: 0 out, 1 x, 2 rate f32[n], 3 bias f32[n].  i: 0 n. */
  GOLEM_OP_DECAY = 22,
  /* Re-lays W[R,k] for GOLEM_OP_MATMUL: R is its m.
   * p: 0 out (golem_laid_bytes(type, R, k) bytes, 64-byte aligned), 1 W (rows packed as in a GGUF file).  i: 0 k, 1 ggml type.
   * GOLEM_E_TYPE where the instruction set has no layout of its own for the type. */
  GOLEM_OP_LAY = 23,
  /* out[R,n] = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias, the variance divided by n.  May work in place.
   * p: 0 out, 1 x, 2 weight f32[n], 3 bias f32[n] or NULL.  i: 0 n.  f: 0 eps. */
  GOLEM_OP_LAYER_NORM = 24,
  /* out f32[R,heads,hd] = softmax(scale * q . k) v over the rows of the row's own text, at most `window` rows before and after
   * it where there is a window. A text is neighbouring rows with the same number. Scores are summed over the dimensions in their order, values over the rows in theirs.
   * p: 0 out, 1 q f32[R,heads,hd], 2 k, 3 v (like q), 4 text int32[R].  i: 0 heads, 1 hd (up to 1024), 2 window (0: all).
   * f: 0 scale. */
  GOLEM_OP_TEXT_ATTN = 25,
  /* out[R,n] = the mean of rows first[r] .. first[r] + count[r] of x, summed in their order.
   * p: 0 out, 1 x f32, 2 first int32[R], 3 count int32[R].
   * i: 0 n, 1 axis whose live count is the number of rows of x, or -1, 2 that number when i[1] < 0.
   * No rows, or rows outside x: GOLEM_E_INDEX, nothing written. */
  GOLEM_OP_MEAN = 26,
  /* out f32[R,blocks] = the largest of every 512 of the first n values of x[R,width], blocks = ceil(n / 512); NaN for a block
   * that holds a NaN or an infinity.  p: 0 out, 1 x.  i: 0 n, 1 width. */
  GOLEM_OP_BLOCK_MAXIMA = 27,
  /* out int32[R] = where the first largest of the first n values of x[R,width] is; -1 where they are not all finite.
   * p: 0 out, 1 x, 2 the block maxima of x.  i: 0 n, 1 width. */
  GOLEM_OP_ARG_LARGEST = 28,
  /* out[R,n] = x * (1 + strength * ln(1 + position / period)), a division of integers.  May work in place.
   * p: 0 out, 1 x, 2 position int32[R].  i: 0 n, 1 period (1..2^31-1).  f: 0 strength.
   * GOLEM_E_POSITION (negative): nothing written. */
  GOLEM_OP_TEMPERATURE = 29,
  /* out[R,n] = each block of every row of x times the symmetric matrix (-1)^popcount(i & j) / sqrt(block), with signs before or
   * after. Values first, second, size are read as [second,first,size] of x[first,second,size]: the order of heads is exchanged.
   * p: 0 out, 1 x, 2 signs f32[n] (factors of the transform's input, or of its output), or NULL for ones.
   * i: 0 n (first * second * size), 1 block (a power of two up to 4096 that divides n), 2 one for signs after the transform, else 0,
   *    3 first, 4 second. */
  GOLEM_OP_HADAMARD = 30,
  /* What a strided causal convolution multiplies: out[R,steps/stride,taps,n], in which output o of a slot's stream is its input
   * steps o * stride - past .. o * stride - past + taps - 1, past = taps - stride; each row of the pass is `steps` steps of
   * its slot. The state of a slot is its last `past` input steps. Slots, positions (of rows) and states: as GOLEM_OP_CONV; before
   * the first step lie zeros, or copies of it.
   * p: 0 out, 1 x f32[R,steps,n], 2 state f32[slots,past,n], 3 taken int32[slots], 4 slot int32[R], 5 position int32[R].
   * i: 0 n, 1 steps (a multiple of stride), 2 taps (more than stride), 3 stride, 4 slots (1..2^20), 5 one for copies of the first
   *    step before it, else 0. */
  GOLEM_OP_WINDOWS = 31,
  /* out f32[R,heads,hd] = softmax(scale * q . k) v over all rows of k and v, or up to the query's own. Head h reads kv head
   * h / (heads / kv_heads). Scores are summed over the dimensions in their order, values over the rows in theirs.
   * p: 0 out, 1 q f32[R,heads,hd], 2 k f32[keys,kv_heads,hd], 3 v (like k).
   * i: 0 heads, 1 kv_heads, 2 hd (up to 1024), 3 axis whose live count is the number of keys, or -1, 4 that number when i[3] < 0,
   *    5 the row among the keys that q begins at, 6 one where rows after a query's own are not seen, else 0,
   *    7 one where processors with instructions for it may round q, k, v and the weights to bfloat16, else 0,
   *    8 the kv head whose heads' outputs are written first, 9 of how many kv heads, or 0 for all; others' are left as they are.
   * Rows that a query does not see may weigh zero instead of being left out: where they are not finite, the result may be neither.
   * f: 0 scale.  No keys, or queries past them where rows are not seen: GOLEM_E_INDEX, nothing written. */
  GOLEM_OP_FULL_ATTN = 32,
  /* out f32[R,m]: R pixels of the 3 x 3 convolution, padded by zeros, of an image whose pixels are the rows of x, line by line.
   * p: 0 out, 1 x f32[pixels,c], 2 W f32[m,3,3,c] (line, column, channel), 3 bias f32[m] or NULL.
   * i: 0 m, 1 c, 2 width (pixels and R are whole lines), 3 axis whose live count is the number of pixels, or -1,
   *    4 that number when i[3] < 0, 5 the pixel that out begins at (a line's first).
   * Lines that are not there: GOLEM_E_INDEX, nothing written. */
  GOLEM_OP_CONV2D = 33
};

enum golem_act {      /* how one row of n activations is stored; the bytes are private to the library */
  GOLEM_ACT_F32 = 0,  /* float32[n]: the row itself, no GOLEM_OP_ACT needed */
  GOLEM_ACT_Q8_0 = 1, /* n % 32 == 0 */
  GOLEM_ACT_Q8_1 = 2, /* n % 32 == 0 */
  GOLEM_ACT_Q8_K = 3, /* n % 256 == 0 */
  GOLEM_ACT_F16 = 4,
  GOLEM_ACT_BF16 = 5
};

enum golem_rope {
  GOLEM_ROPE_NORM = 0, /* pairs (2i, 2i+1) */
  GOLEM_ROPE_NEOX = 1  /* pairs (i, i + n_rot/2) */
};

enum golem_axes {           /* which of a row's positions turns pair i; j = i % (pairs of all sections) */
  GOLEM_AXES_ONE = 0,       /* the only one */
  GOLEM_AXES_SECTIONED = 1, /* that of the section that j lies in */
  GOLEM_AXES_INTERLEAVED = 2 /* axis j % 3 where j < 3 * (its section's pairs), else the fourth */
};

enum golem_gate {
  GOLEM_GATE_SILU = 0,
  GOLEM_GATE_GELU_TANH = 1, /* through float16, as ggml: x <= -10 gives 0, x >= 10 gives x */
  GOLEM_GATE_SIGMOID = 2,
  GOLEM_GATE_GELU_ERF = 3, /* x times the normal distribution function */
  GOLEM_GATE_RELU = 4,
  GOLEM_GATE_ELU = 5, /* x above 0, else e^x - 1 */
  GOLEM_GATE_GELU_TANH_F32 = 6 /* the tanh form without rounding */
};

enum golem_weighting { /* of a row's router logits */
  GOLEM_WEIGHTING_SOFTMAX = 0,        /* softmax over all experts */
  GOLEM_WEIGHTING_SOFTMAX_CHOSEN = 1, /* softmax over the chosen: the same renormalized to a sum of one */
  GOLEM_WEIGHTING_SIGMOID = 2         /* each chosen expert's own */
};

enum golem_error {
  GOLEM_OK = 0,
  GOLEM_E_OP = 1,
  GOLEM_E_SHAPE = 2,
  GOLEM_E_TYPE = 3,
  GOLEM_E_NULL = 4,
  GOLEM_E_ROWS = 5,
  GOLEM_E_ID = 6,
  GOLEM_E_SLOT = 7,
  GOLEM_E_POSITION = 8,
  GOLEM_E_INDEX = 9,
  GOLEM_E_MEMORY = 10,
  GOLEM_E_BUSY = 11,
  GOLEM_E_STRINGS = 12
};

int golem_abi(void);               /* GOLEM_ABI of the library */
const char *golem_isa(void);       /* "generic", "avx2", "avx512-vnni", "avx512-bf16", "neon": the best the machine has; env GOLEM_ISA may lower it */
const char *golem_error_text(int code);
int golem_act_kind(int ggml_type); /* golem_act that MATMUL wants with these weights, -1 where the type is not supported */
int64_t golem_act_bytes(int kind, int64_t n); /* bytes of one activation row, a multiple of 4; 0 where n does not fit */
int64_t golem_tile_rows(int ggml_type); /* rows that GOLEM_OP_LAY lays together, 0 where it does not */
int64_t golem_laid_bytes(int ggml_type, int64_t m, int64_t k); /* bytes of W[m,k] re-laid by GOLEM_OP_LAY, 0 where that is not possible */

golem_pool *golem_pool_new(int threads); /* threads (1..256) include the caller of golem_run; NULL on failure */
void golem_pool_free(golem_pool *pool);
/* Replays n commands. 0, or the error of the command whose index is put in *failed_at; commands before it
 * have run. One golem_run at a time per pool (else GOLEM_E_BUSY). */
int golem_run(golem_pool *pool, const golem_cmd *cmds, int64_t n, const int64_t *live, int64_t *failed_at);

/* The k largest of x f32[n] (NaN below all), largest first, ties by lower index. 0 < k <= n, else GOLEM_E_SHAPE.
 * maxima: those of GOLEM_OP_BLOCK_MAXIMA where every value is finite, or NULL, and they are searched for. */
int golem_top_k(const float *x, const float *maxima, int64_t n, int64_t k, int32_t *index, float *value);
/* Draws from x f32[n]: keeps the top_k largest, of those the shortest leading run whose probabilities reach top_p, of those
 * the values of at least the largest + ln_min_p; divides by temperature; then the first at which the running sum of weights
 * reaches `share` (0..1) of the whole. maxima: as in golem_top_k. Returns its index; -1 where the largest is not finite, -2
 * for bad arguments, -3 without memory. */
int64_t golem_draw(const float *x, const float *maxima, int64_t n, const golem_draw_rules *rules, double share);
/* Walks count GGUF strings (uint64 length, bytes) in buf[0..size) from byte `at`: offsets[j] is where string j's
 * length field starts, offsets[count] the end of the last. GOLEM_E_STRINGS when one leaves the buffer. */
int golem_walk_strings(const uint8_t *buf, int64_t size, int64_t at, int64_t count, int64_t *offsets);
/* cdef end */

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
