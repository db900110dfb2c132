// What every instruction set provides. Each function works on one row (or one tile of rows) and says
// nothing about threads; the ops_*.cpp files cut the work.
#pragma once
#include <cstdint>

#include "attention.h"
#include "blocks.h"
#include "golem_kernels.h"
#include "image_conv.h"
#include "text_attention.h"

namespace golem {

// One product: out[rows,m] = x[rows,k] . w[m,k]^T + bias.
struct Product {
  const uint8_t *w;
  int64_t w_stride;  // bytes of a weight row; of a tile where weights are re-laid
  const uint8_t *x;
  int64_t x_stride;  // bytes of an activation row
  const float *bias;  // or nullptr
  float *out;
  int64_t rows, m, k;
};

// Computes out[:, begin:end] for every activation row.
using ProductFn = void (*)(const Product &product, int64_t begin, int64_t end);

// How an instruction set re-lays the weights of one type: in tiles of Kernels::product_rows rows. All nullptr where it
// multiplies them as they are stored.
struct Layout {
  ProductFn product;  // begin is a multiple of a tile's rows
  void (*lay)(const uint8_t *w, int64_t w_stride, int64_t rows, int64_t k, uint8_t *tile);  // rows: at most a tile's
  int64_t (*tile_bytes)(int64_t k);  // a multiple of 64
};

// The gated delta update: what all rows share.
struct Delta {
  const float *qkv;    // [rows, 2 * key_heads * key_dim + value_heads * value_dim]: all queries, all keys, all values
  const float *decay;  // [rows, value_heads]
  const float *beta;   // [rows, value_heads]
  float *out;          // [rows, value_heads, value_dim]
  int64_t key_heads, value_heads, key_dim, value_dim;
  float scale;
};

constexpr int64_t kMaxTaps = 16;        // of a convolution
constexpr int64_t kDeltaColumns = 32;   // of a head's state that one thread takes through the rows
constexpr int64_t kMaxDeltaKeys = 256;  // key_dim

constexpr int64_t kMaximaBlock = 512;
constexpr int64_t kMaxHadamard = 4096;  // values of a transform

struct Kernels {
  const char *name;
  ProductFn product[kTypes];        // of weight rows as a file stores them; nullptr for unsupported types
  int64_t product_rows[kTypes];     // a range should begin at a multiple of this
  Layout layout[kTypes];
  int64_t product_columns;  // rows that a product of floats takes at a time
  // The same of F32, F16 and BF16 weights with rows that were not rounded to their type.
  ProductFn unrounded[kTypes], unrounded_laid[kTypes];
  // Rows for BF16 weights of an even number of inputs, side by side in two bytes each; nullptr: they are floats as others'.
  void (*pack_pairs)(const float *x, int64_t n, uint16_t *out);
  void (*quantize)(int kind, const float *x, int64_t n, uint8_t *out);
  void (*rms_norm)(float *out, const float *x, const float *weight, int64_t n, float eps);
  void (*rotate)(float *out, const float *x, const float *angles, int64_t hd, int64_t n_rot, int style);
  void (*store_half)(uint16_t *out, const float *x, int64_t n);
  // out[n] = silu(sum of taps[k] * weight[k * stride ..]), width taps.
  void (*convolve)(float *out, const float *const *taps, int64_t width, const float *weight, int64_t stride, int64_t n);
  // One sequence (numbers of its rows) through columns begin.. of one value head of its slot's state.
  void (*delta)(const Delta &delta, const int64_t *rows, int64_t count, float *state, bool fresh, int64_t head, int64_t begin);
  void (*layer_norm)(float *out, const float *x, const float *weight, const float *bias, int64_t n, float eps);
  void (*l2_norm)(float *out, const float *x, int64_t n, float eps);
  void (*hadamard)(float *x, int64_t n, float by);  // of x[n], n a power of two, times by
  // The four steps of a tile's attention; positions of the slot from begin to end, then dimensions of the values from
  // begin (a multiple of 16) to end.
  void (*attend_queries)(const Attention &attention, const Tile &tile);
  void (*attend_scores)(const Attention &attention, const Tile &tile, int64_t begin, int64_t end);
  void (*attend_weights)(const Attention &attention, const Tile &tile, int64_t query);
  void (*attend_values)(const Attention &attention, const Tile &tile, int64_t begin, int64_t end);
  // Some of the text_lay_units of a tile's keys and values as attend_text multiplies with them, the same for all heads and
  // queries of a kv head and for all tiles of these keys; panels: text_panel_floats, memory: text_attention_floats.
  void (*lay_text)(const TextAttention &attention, const TextTile &tile, int64_t begin, int64_t end, float *panels, float *memory);
  int64_t (*text_lay_units)(const TextTile &tile);
  int64_t (*text_panel_floats)(const TextTile &tile, int64_t hd);
  // Queries begin..end of a text and one head over all its keys.
  void (*attend_text)(const TextAttention &attention, const TextTile &tile, const float *panels, float *memory);
  int64_t (*text_attention_floats)(const TextTile &tile, int64_t hd);
  // Some outputs (a multiple of image_tile_outputs on) of some lines of an image; memory: image_conv_floats.
  void (*convolve_image)(const ImageConv &conv, const ImageTile &tile, float *memory);
  int64_t (*image_conv_floats)(int64_t c);
  int64_t image_tile_outputs;
  // The largest of every kMaximaBlock values of x[n], NaN below all; whether every value is finite.
  bool (*block_maxima)(const float *x, int64_t n, float *maxima);
  // Appends the indices in begin..end of values of at least `floor` to index[*count..room), as far as there is surely room;
  // where it stopped.
  int64_t (*collect)(const float *x, int64_t begin, int64_t end, float floor, int32_t *index, int64_t *count, int64_t room);
  // up may be nullptr: ones
  void (*gate_silu)(float *out, const float *gate, const float *up, int64_t n);
  void (*gate_gelu)(float *out, const float *gate, const float *up, int64_t n);
  void (*gate_gelu_erf)(float *out, const float *gate, const float *up, int64_t n);
  void (*gate_sigmoid)(float *out, const float *gate, const float *up, int64_t n);
  void (*gate_gelu_tanh)(float *out, const float *gate, const float *up, int64_t n);  // in float32
  void (*gate_relu)(float *out, const float *gate, const float *up, int64_t n);
  void (*gate_elu)(float *out, const float *gate, const float *up, int64_t n);
  void (*add)(float *out, const float *a, const float *b, int64_t n);
  void (*mul)(float *out, const float *a, const float *b, int64_t n);
  void (*scale)(float *out, const float *x, float by, int64_t n);
  void (*softcap)(float *out, const float *x, float cap, int64_t n);
  // One row: out[n] = sum over the slots of weight * y[slot,n].
  void (*mix)(float *out, const float *y, const golem_route *routes, int64_t used, int64_t n);
};

// The instruction set chosen when first asked: the best of this machine, or what GOLEM_ISA lowers it to.
const Kernels &kernels();

}  // namespace golem
