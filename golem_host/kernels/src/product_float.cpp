// Products with F32, F16 and BF16 weights; activations are float32 (already rounded to the type's precision), or pairs of
// bfloat16 (bfloat_pairs.h). Tiles of kPanelWidth weight rows are panels (panel.h): re-laid they lie in memory as such, else
// they are made of the rows.
#include <cstring>
#include <type_traits>

#include "isa_functions.h"
#include "panel.h"
#if defined(GOLEM_ISA_BF16)
#include "bfloat_pairs.h"
#endif

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

constexpr int64_t kBlockColumns = 300;  // the most activation rows of which a cache of a megabyte holds a span

struct Half : Input<Half> {
  using Word = uint16_t;
  static vf get(const uint16_t *p) { return load_half(p); }
  static vf get_n(const uint16_t *p, int n) { return load_half_n(p, n); }
};
struct Bfloat : Input<Bfloat> {
  using Word = uint16_t;
  static vf get(const uint16_t *p) { return load_bfloat(p); }
  static vf get_n(const uint16_t *p, int n) { return load_bfloat_n(p, n); }
};

// Where a tile's products with inputs i .. i + n go.
PanelOut span_of(const Product &p, int64_t o, int64_t end, int64_t i, int64_t n) {
  const int64_t width = end - o < kPanelWidth ? end - o : kPanelWidth;
  return {p.out + o, p.m, width, i == 0, i + n == p.k && p.bias != nullptr ? p.bias + o : nullptr};
}

// A span of a tile in words of four bytes, times all rows.
template <class W = Float32>
void multiply(const Product &p, const float *panel, int64_t i, int64_t n, const PanelOut &out, const float *next = nullptr) {
  panel_product<W>(panel, n, reinterpret_cast<const float *>(p.x) + i, p.x_stride / 4, p.rows, out, next);
}

template <class W>
constexpr bool is_multiplied_as_it_is = std::is_base_of<Float32, W>::value;

template <class W>
void product_tiles(const Product &p, int64_t begin, int64_t end) {
  using As = typename std::conditional<is_multiplied_as_it_is<W>, W, Float32>::type;
  alignas(64) float panel[kPanelSpan * kPanelWidth];
  for (int64_t o = begin; o < end; o += kPanelWidth)
    for (int64_t i = 0; i < p.k; i += kPanelSpan) {
      const int64_t n = p.k - i < kPanelSpan ? p.k - i : kPanelSpan;
      const PanelOut out = span_of(p, o, end, i, n);
      transpose_rows<W>(p.w + o * p.w_stride, p.w_stride, out.width, i, n, panel);
      multiply<As>(p, panel, i, n, out);
    }
}

// Spans of all tiles one after the other: what rows have of a span stays in the nearer cache for all of them.
template <class W>
void laid_tiles(const Product &p, int64_t begin, int64_t end) {
  alignas(64) float panel[is_multiplied_as_it_is<W> ? 1 : kPanelSpan * kPanelWidth];
  const auto words_of = [&](int64_t o, int64_t i) {
    return reinterpret_cast<const typename W::Word *>(p.w + o / kPanelWidth * p.w_stride) + i / W::kInputs * kPanelWidth;
  };
  for (int64_t i = 0; i < p.k; i += kPanelSpan)
    for (int64_t o = begin; o < end; o += kPanelWidth) {
      const int64_t n = p.k - i < kPanelSpan ? p.k - i : kPanelSpan;
      const PanelOut out = span_of(p, o, end, i, n);
      const auto *words = words_of(o, i);
      if constexpr (is_multiplied_as_it_is<W>) {
        const auto *next = o + kPanelWidth < end ? words_of(o + kPanelWidth, i) : i + n < p.k ? words_of(begin, i + n) : nullptr;
        multiply<W>(p, words, i, n, out, next);
      } else if (p.rows <= kPanelColumns) {  // converted once anyway
        panel_product<W>(words, n, reinterpret_cast<const float *>(p.x) + i, p.x_stride / 4, p.rows, out);
      } else {
        for (int64_t at = 0; at < n; at += 4)
          for (int u = 0; u < 4 && at + u < n; u++)
            for (int v = 0; v < kPanelVectors; v++) store(panel + (at + u) * kPanelWidth + v * kWidth, W::of(words, at, u, v));
        multiply(p, panel, i, n, out);
      }
    }
}

// Calls fn for blocks of the activation rows, of about the same size.
template <class Fn>
void each_block(const Product &p, Fn fn) {
  Product block = p;
  const int64_t blocks = (p.rows + kBlockColumns - 1) / kBlockColumns, each = (p.rows + blocks - 1) / blocks;
  const int64_t step = (each + kPanelColumns - 1) / kPanelColumns * kPanelColumns;
  for (int64_t c = 0; c < p.rows; c += step) {
    block.x = p.x + c * p.x_stride;
    block.out = p.out + c * p.m;
    block.rows = p.rows - c < step ? p.rows - c : step;
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
  if constexpr (is_multiplied_as_it_is<W>) {
    transpose_rows<W>(w, stride, rows, 0, k, tile);
  } else {
    for (int64_t r = 0; r < kPanelWidth; r++) {
      const uint8_t *row = w + r * stride;
      for (int64_t i = 0; i < k; i++) {
        Word word{0};
        if (r < rows) memcpy(&word, row + i * static_cast<int64_t>(sizeof word), sizeof word);  // files hold them at odd addresses too
        tile[i * kPanelWidth + r] = word;
      }
    }
  }
}

template <class W>
Layout layout() {
  return {laid_product<W>, lay<W>, [](int64_t k) {
            return (k * kPanelWidth * static_cast<int64_t>(sizeof(typename W::Word)) + 63) / 64 * 64;
          }};
}

template <class W>
void fill_type(Kernels &table, int type) {
  table.product[type] = table.unrounded[type] = product<W>;
  table.layout[type] = layout<W>();
  table.unrounded_laid[type] = table.layout[type].product;
  table.product_rows[type] = kPanelWidth;
}

#if defined(GOLEM_ISA_BF16)

Product in_pairs(const Product &p) {
  Product pairs = p;
  pairs.k = p.k / 2;
  return pairs;
}

void paired_product(const Product &p, int64_t begin, int64_t end) {
  if (p.k % 2 != 0) product<Bfloat>(p, begin, end);
  else product<Pairs>(in_pairs(p), begin, end);
}

void laid_paired_product(const Product &p, int64_t begin, int64_t end) {
  if (p.k % 2 != 0) laid_product<Bfloat>(p, begin, end);
  else laid_product<Pairs>(in_pairs(p), begin, end);
}

void laid_unrounded_product(const Product &p, int64_t begin, int64_t end) {
  if (p.k % 2 != 0) laid_product<Bfloat>(p, begin, end);
  else laid_product<Paired>(p, begin, end);
}

void lay_pairs(const uint8_t *w, int64_t stride, int64_t rows, int64_t k, uint8_t *out) {
  if (k % 2 != 0) lay<Bfloat>(w, stride, rows, k, out);
  else lay<Pairs>(w, stride, rows, k / 2, out);
}

void fill_pairs(Kernels &table) {
  table.product[BF16] = paired_product;
  table.layout[BF16].product = laid_paired_product;
  table.layout[BF16].lay = lay_pairs;
  table.unrounded_laid[BF16] = laid_unrounded_product;
  table.pack_pairs = [](const float *x, int64_t n, uint16_t *out) { pack_pairs(x, n, out); };
}

#endif

}  // namespace

const int64_t kFloatRows = kPanelWidth;

void fill_floats(Kernels &table) {
  table.product_columns = kPanelColumns;
  fill_type<Float32>(table, F32);
  fill_type<Half>(table, F16);
  fill_type<Bfloat>(table, BF16);
#if defined(GOLEM_ISA_BF16)
  fill_pairs(table);
#endif
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
