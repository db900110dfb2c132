// Attention of some queries over a range of rows, one head: two products with panels (panel.h), of the keys and of
// the values, and a softmax between them. Both sums are taken in one lane, in the order of the dimensions and of the rows.
#include "text_attention.h"

#include <cmath>

#include "isa_functions.h"
#include "panel.h"
#if defined(GOLEM_ISA_BF16)
#include "bfloat_pairs.h"
#endif

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

int64_t whole_panels(int64_t n) { return (n + kPanelWidth - 1) / kPanelWidth * kPanelWidth; }

// `columns` rows of n words from x on, times a panel of n rows; rows of x are `x_stride` words apart.
template <class W>
void multiply(const float *panel, int64_t n, const float *x, int64_t x_stride, int64_t columns, PanelOut out) {
  for (int64_t i = 0; i < n; i += kPanelSpan) {
    out.first = i == 0;
    panel_product<W>(panel + i * kPanelWidth, n - i < kPanelSpan ? n - i : kPanelSpan, x + i, x_stride, columns, out);
  }
}

// What is multiplied, in words of four bytes: floats as they are.
struct Floats {
  using W = Float32;
  static int64_t words(int64_t n) { return n; }
  static const float *queries(const float *q, int64_t &, int64_t, int64_t, float *) { return q; }
  static void weights(float *, int64_t) {}
  static void keys(const float *k, int64_t stride, int64_t rows, int64_t hd, float *, float *panel) {
    transpose_rows<Float32>(reinterpret_cast<const uint8_t *>(k), stride * 4, rows, 0, hd, panel);
  }
  static void values(const float *v, int64_t stride, int64_t from, int64_t to, int64_t, int64_t n, float *panel) {
    for (int64_t row = from; row < to; row++)
      for (int64_t j = 0; j < kPanelWidth; j += kWidth)
        store(panel + row * kPanelWidth + j, j < n ? load_part(v + row * stride + j, n - j) : zero());
  }
};

#if defined(GOLEM_ISA_BF16)

// Pairs of dimensions, then pairs of keys, rounded to bfloat16.
struct InPairs {
  using W = Pairs;
  static int64_t words(int64_t n) { return (n + 1) / 2; }
  static void pack(const float *x, int64_t n, float *out) { pack_pairs(x, n, reinterpret_cast<uint16_t *>(out)); }
  static const float *queries(const float *q, int64_t &stride, int64_t count, int64_t hd, float *memory) {
    for (int64_t j = 0; j < count; j++) pack(q + j * stride, hd, memory + j * (hd / 2));
    stride = hd / 2;
    return memory;
  }
  static void weights(float *w, int64_t n) { pack(w, n, w); }  // writes what it has read
  static void keys(const float *k, int64_t stride, int64_t rows, int64_t hd, float *memory, float *panel) {
    const int64_t count = rows < kPanelWidth ? rows : kPanelWidth;
    for (int64_t j = 0; j < count; j++) pack(k + j * stride, hd, memory + j * (hd / 2));
    transpose_rows<Float32>(reinterpret_cast<const uint8_t *>(memory), hd / 2 * 4, rows, 0, hd / 2, panel);
  }
  static void values(const float *v, int64_t stride, int64_t from, int64_t to, int64_t rows, int64_t n, float *panel) {
    for (int64_t row = from; row < to; row += 2)
      for (int64_t j = 0; j < kPanelWidth; j += kWidth) {
        const float *at = v + row * stride + j;
        const vf first = j < n ? load_part(at, n - j) : zero(), second = j < n && row + 1 < rows ? load_part(at + stride, n - j) : zero();
        store(panel + row / 2 * kPanelWidth + j, pairs_of(first, second));
      }
  }
};

#endif

// Scores of n keys to weights, of which begin..end are seen; the others, and the lanes past n, weigh nothing.
void softmax(float *w, int64_t n, int64_t begin, int64_t end, float scale) {
  for (int64_t i = 0; i < begin; i++) w[i] = -INFINITY;
  for (int64_t i = end; i < whole_panels(n); i++) w[i] = -INFINITY;
  const vf by = set1(scale);
  vf m = set1(-INFINITY);
  for (int64_t i = 0; i < n; i += kWidth) m = larger(m, load(w + i) * by);
  const vf max = set1(largest(m));
  vf total = zero();
  for (int64_t i = 0; i < n; i += kWidth) {
    const vf e = exp(load(w + i) * by - max);
    store(w + i, e);
    total = total + e;
  }
  const vf inverse = set1(1.0f / sum(total));
  for (int64_t i = 0; i < n; i += kWidth) store(w + i, load(w + i) * inverse);
}

// Floats of the keys' panels, which the values' follow.
int64_t key_floats(const TextTile &t, int64_t hd) { return whole_panels(t.laid) * hd; }

// A unit is the rows of a panel of keys.
int64_t lay_units(const TextTile &t) { return whole_panels(t.laid) / kPanelWidth; }

template <class Form>
void lay(const TextAttention &a, const TextTile &t, int64_t begin, int64_t end, float *panels, float *memory) {
  const int64_t stride = a.kv_heads * a.hd, at = t.first * stride + t.head / (a.heads / a.kv_heads) * a.hd;
  float *const values = panels + key_floats(t, a.hd);
  for (int64_t from = begin * kPanelWidth; from < t.laid && from < end * kPanelWidth; from += kPanelWidth) {
    const int64_t to = from + kPanelWidth < t.laid ? from + kPanelWidth : t.laid;
    Form::keys(a.k + at + from * stride, stride, t.laid - from, a.hd, memory, panels + from * Form::words(a.hd));
    for (int64_t i = 0; i < a.hd; i += kPanelWidth)
      Form::values(a.v + at + i, stride, from, to, t.laid, a.hd - i, values + i * Form::words(t.laid));
  }
}

template <class Form>
void attend(const TextAttention &a, const TextTile &t, const float *panels, float *memory) {
  using W = typename Form::W;
  const int64_t out_stride = a.heads * a.hd, from = t.begin * out_stride + t.head * a.hd;
  const int64_t queries = t.end - t.begin, width = whole_panels(t.rows);
  float *const weights = memory;
  int64_t q_stride = out_stride;
  const float *const q = Form::queries(a.q + from, q_stride, queries, a.hd, weights + queries * width);
  for (int64_t key = 0; key < t.rows; key += kPanelWidth)
    multiply<W>(panels + key * Form::words(a.hd), Form::words(a.hd), q, q_stride, queries, {weights + key, width, kPanelWidth, true, nullptr});
  for (int64_t j = 0; j < queries; j++) {
    const int64_t own = a.own + t.begin + j - t.first;
    const bool all = a.window == 0 || a.window >= t.rows;
    const int64_t begin = all || own < a.window ? 0 : own - a.window;
    const int64_t end = a.causal ? own + 1 : all || t.rows - own <= a.window ? t.rows : own + a.window + 1;
    softmax(weights + j * width, t.rows, begin, end, a.scale);
    Form::weights(weights + j * width, width);
  }
  const float *const values = panels + key_floats(t, a.hd);
  for (int64_t i = 0; i < a.hd; i += kPanelWidth) {
    const int64_t n = a.hd - i < kPanelWidth ? a.hd - i : kPanelWidth;
    multiply<W>(values + i * Form::words(t.laid), Form::words(t.rows), weights, width, queries, {a.out + from + i, out_stride, n, true, nullptr});
  }
}

int64_t panel_floats(const TextTile &t, int64_t hd) { return key_floats(t, hd) + whole_panels(hd) * (t.laid + 1); }

int64_t floats_of(const TextTile &t, int64_t hd) {
  const int64_t queries = t.end - t.begin;
  return whole_panels(t.rows) * queries + (queries < kPanelWidth ? kPanelWidth : queries) * hd;
}

void lay_text(const TextAttention &a, const TextTile &t, int64_t begin, int64_t end, float *panels, float *memory) {
#if defined(GOLEM_ISA_BF16)
  if (a.coarse && a.hd % 2 == 0) return lay<InPairs>(a, t, begin, end, panels, memory);
#endif
  lay<Floats>(a, t, begin, end, panels, memory);
}

void attend_text(const TextAttention &a, const TextTile &t, const float *panels, float *memory) {
#if defined(GOLEM_ISA_BF16)
  if (a.coarse && a.hd % 2 == 0) return attend<InPairs>(a, t, panels, memory);
#endif
  attend<Floats>(a, t, panels, memory);
}

}  // namespace

void fill_text(Kernels &table) {
  table.attend_text = attend_text;
  table.lay_text = lay_text;
  table.text_lay_units = lay_units;
  table.text_panel_floats = panel_floats;
  table.text_attention_floats = floats_of;
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
