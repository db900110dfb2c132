// Declarations of the functions that are compiled once per instruction set; isa_table.cpp collects them.
#pragma once
#include "kernels.h"
#include "simd.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {

void quantize(int kind, const float *x, int64_t n, uint8_t *out);
void store_half_row(uint16_t *out, const float *x, int64_t n);
void rms_norm(float *out, const float *x, const float *weight, int64_t n, float eps);
void rotate(float *out, const float *x, const float *angles, int64_t hd, int64_t n_rot, int style);
void convolve(float *out, const float *const *taps, int64_t width, const float *weight, int64_t stride, int64_t n);
void delta(const Delta &delta, const int64_t *rows, int64_t count, float *state, bool fresh, int64_t head, int64_t begin);
void layer_norm(float *out, const float *x, const float *weight, const float *bias, int64_t n, float eps);
void hadamard(float *x, int64_t n, float by);
void l2_norm(float *out, const float *x, int64_t n, float eps);
void attend_queries(const Attention &attention, const Tile &tile);
void attend_scores(const Attention &attention, const Tile &tile, int64_t begin, int64_t end);
void attend_weights(const Attention &attention, const Tile &tile, int64_t query);
void attend_values(const Attention &attention, const Tile &tile, int64_t begin, int64_t end);
void convolve_image(const ImageConv &conv, const ImageTile &tile, float *memory);
int64_t image_conv_floats(int64_t c);
bool block_maxima(const float *x, int64_t n, float *maxima);
int64_t collect(const float *x, int64_t begin, int64_t end, float floor, int32_t *index, int64_t *count, int64_t room);
void gate_silu(float *out, const float *gate, const float *up, int64_t n);
void gate_gelu(float *out, const float *gate, const float *up, int64_t n);
void gate_gelu_erf(float *out, const float *gate, const float *up, int64_t n);
void gate_sigmoid(float *out, const float *gate, const float *up, int64_t n);
void gate_gelu_tanh(float *out, const float *gate, const float *up, int64_t n);
void gate_relu(float *out, const float *gate, const float *up, int64_t n);
void gate_elu(float *out, const float *gate, const float *up, int64_t n);
void add(float *out, const float *a, const float *b, int64_t n);
void mul(float *out, const float *a, const float *b, int64_t n);
void scale(float *out, const float *x, float by, int64_t n);
void softcap(float *out, const float *x, float cap, int64_t n);
void mix(float *out, const float *y, const golem_route *routes, int64_t used, int64_t n);

void fill_floats(Kernels &table);       // what it has of F32, F16 and BF16 weights
void fill_text(Kernels &table);         // attention of float rows
extern const int64_t kFloatRows;        // weight rows of a tile of float products
ProductFn quantized_product(int type);  // the others; nullptr for unsupported types
Layout layout_of(int type);             // of a quantized type
extern const int64_t kQuantizedRows;    // weight rows of a tile of quantized products

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
