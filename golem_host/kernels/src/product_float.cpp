// Products with F32, F16 and BF16 weights; activations are float32 (already rounded to the type's precision).
// kWidth partial sums per output, each over the inputs k = lane (mod kWidth) in ascending order: the same for
// every tile shape.
#include "isa_functions.h"
#include "simd.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

struct Float32 {
  using Word = float;
  static vf get(const float *p) { return load(p); }
  static vf get_n(const float *p, int n) { return load_n(p, n); }
};
struct Half {
  using Word = uint16_t;
  static vf get(const uint16_t *p) { return load_half(p); }
  static vf get_n(const uint16_t *p, int n) { return load_half_n(p, n); }
};
struct Bfloat {
  using Word = uint16_t;
  static vf get(const uint16_t *p) { return load_bfloat(p); }
  static vf get_n(const uint16_t *p, int n) { return load_bfloat_n(p, n); }
};

// M weight rows from `o` times C activation rows from `c`.
template <class W, int M, int C>
void tile(const Product &p, int64_t o, int64_t c) {
  const typename W::Word *w[M];
  const float *x[C];
  vf s[M][C];
  for (int i = 0; i < M; i++) w[i] = reinterpret_cast<const typename W::Word *>(p.w + (o + i) * p.w_stride);
  for (int j = 0; j < C; j++) x[j] = reinterpret_cast<const float *>(p.x + (c + j) * p.x_stride);
  for (int i = 0; i < M; i++)
    for (int j = 0; j < C; j++) s[i][j] = zero();
  int64_t k = 0;
  for (; k + kWidth <= p.k; k += kWidth) {
    vf b[C];
    for (int j = 0; j < C; j++) b[j] = load(x[j] + k);
    for (int i = 0; i < M; i++) {
      const vf a = W::get(w[i] + k);
      for (int j = 0; j < C; j++) s[i][j] = fma(a, b[j], s[i][j]);
    }
  }
  if (k < p.k) {
    const int rest = static_cast<int>(p.k - k);
    for (int i = 0; i < M; i++) {
      const vf a = W::get_n(w[i] + k, rest);
      for (int j = 0; j < C; j++) s[i][j] = fma(a, load_n(x[j] + k, rest), s[i][j]);
    }
  }
  for (int i = 0; i < M; i++) {
    const float bias = p.bias == nullptr ? 0.0f : p.bias[o + i];
    for (int j = 0; j < C; j++) p.out[(c + j) * p.m + o + i] = sum(s[i][j]) + bias;
  }
}

// The tile whose sums, inputs and one weight vector fit the registers.
constexpr int kTileRows = 4, kTileColumns = kRegisters == 32 ? 4 : 3;

template <class W, int M>
void columns(const Product &p, int64_t o) {
  int64_t c = 0;
  for (; c + kTileColumns <= p.rows; c += kTileColumns) tile<W, M, kTileColumns>(p, o, c);
  for (; c < p.rows; c++) tile<W, M, 1>(p, o, c);
}

template <class W>
void product(const Product &p, int64_t begin, int64_t end) {
  int64_t o = begin;
  for (; o + kTileRows <= end; o += kTileRows) columns<W, kTileRows>(p, o);
  for (; o < end; o++) columns<W, 1>(p, o);
}

}  // namespace

ProductFn float_product(int type) {
  switch (type) {
    case F32: return product<Float32>;
    case F16: return product<Half>;
    case BF16: return product<Bfloat>;
    default: return nullptr;
  }
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
