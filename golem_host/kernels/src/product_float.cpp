// Products with F32, F16 and BF16 weights; activations are float32 (already rounded to the type's precision). Tiles of
// kPanelWidth weight rows are panels (panel.h): re-laid they lie in memory as such, else they are made of the rows.
#include <type_traits>

#include "isa_functions.h"
#include "panel.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

constexpr int64_t kBlockColumns = 120;  // activation rows that the nearer caches and page tables hold while their products are taken

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

// The spans of a tile's inputs: calls fn(first input, how many, PanelOut).
template <class Fn>
void each_span(const Product &p, int64_t o, int64_t end, Fn fn) {
  const int64_t width = end - o < kPanelWidth ? end - o : kPanelWidth;
  for (int64_t i = 0; i < p.k; i += kPanelSpan) {
    const int64_t n = p.k - i < kPanelSpan ? p.k - i : kPanelSpan;
    fn(i, n, PanelOut{p.out + o, p.m, width, i == 0, i + n == p.k && p.bias != nullptr ? p.bias + o : nullptr});
  }
}

// A span of a tile as floats, times all rows.
void multiply(const Product &p, const float *panel, int64_t i, int64_t n, const PanelOut &out) {
  panel_product<Float32>(panel, n, reinterpret_cast<const float *>(p.x) + i, p.x_stride / 4, p.rows, out);
}

template <class W>
void product_tiles(const Product &p, int64_t begin, int64_t end) {
  alignas(64) float panel[kPanelSpan * kPanelWidth];
  for (int64_t o = begin; o < end; o += kPanelWidth)
    each_span(p, o, end, [&](int64_t i, int64_t n, const PanelOut &out) {
      transpose_rows<W>(p.w + o * p.w_stride, p.w_stride, out.width, i, n, panel);
      multiply(p, panel, i, n, out);
    });
}

template <class W>
void laid_tiles(const Product &p, int64_t begin, int64_t end) {
  alignas(64) float panel[kPanelSpan * kPanelWidth];
  for (int64_t o = begin; o < end; o += kPanelWidth) {
    const auto *tile = reinterpret_cast<const typename W::Word *>(p.w + o / kPanelWidth * p.w_stride);
    each_span(p, o, end, [&](int64_t i, int64_t n, const PanelOut &out) {
      const auto *words = tile + i * kPanelWidth;
      if constexpr (std::is_same<W, Float32>::value) {
        multiply(p, words, i, n, out);
      } else if (p.rows <= kPanelColumns) {  // converted once anyway
        panel_product<W>(words, n, reinterpret_cast<const float *>(p.x) + i, p.x_stride / 4, p.rows, out);
      } else {
        for (int64_t at = 0; at < n * kPanelWidth; at += kWidth) store(panel + at, W::get(words + at));
        multiply(p, panel, i, n, out);
      }
    });
  }
}

// Calls fn for blocks of the activation rows.
template <class Fn>
void each_block(const Product &p, Fn fn) {
  Product block = p;
  for (int64_t c = 0; c < p.rows; c += kBlockColumns) {
    block.x = p.x + c * p.x_stride;
    block.out = p.out + c * p.m;
    block.rows = p.rows - c < kBlockColumns ? p.rows - c : kBlockColumns;
    fn(block);
  }
}

template <class W>
void product(const Product &p, int64_t begin, int64_t end) {
  each_block(p, [&](const Product &block) { product_tiles<W>(block, begin, end); });
}

// begin is a multiple of kPanelWidth.
template <class W>
void laid_product(const Product &p, int64_t begin, int64_t end) {
  each_block(p, [&](const Product &block) { laid_tiles<W>(block, begin, end); });
}

template <class W>
void lay(const uint8_t *w, int64_t stride, int64_t rows, int64_t k, uint8_t *out) {
  using Word = typename W::Word;
  Word *tile = reinterpret_cast<Word *>(out);
  for (int64_t r = 0; r < kPanelWidth; r++) {
    const Word *row = reinterpret_cast<const Word *>(w + r * stride);
    for (int64_t i = 0; i < k; i++) tile[i * kPanelWidth + r] = r < rows ? row[i] : Word{0};
  }
}

template <class W>
Layout layout() {
  return {laid_product<W>, lay<W>, [](int64_t k) {
            return (k * kPanelWidth * static_cast<int64_t>(sizeof(typename W::Word)) + 63) / 64 * 64;
          }};
}

}  // namespace

const int64_t kFloatRows = kPanelWidth;

ProductFn float_product(int type) {
  switch (type) {
    case F32: return product<Float32>;
    case F16: return product<Half>;
    case BF16: return product<Bfloat>;
    default: return nullptr;
  }
}

Layout float_layout(int type) {
  switch (type) {
    case F32: return layout<Float32>();
    case F16: return layout<Half>();
    case BF16: return layout<Bfloat>();
    default: return {};
  }
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
