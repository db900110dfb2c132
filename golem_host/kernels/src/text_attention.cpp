// Attention of some queries over a range of rows, one head: two products with panels (panel.h), of the keys and of
// the values, and a softmax between them. Both sums are taken in one lane, in the order of the dimensions and of the rows.
#include "text_attention.h"

#include <cmath>

#include "isa_functions.h"
#include "panel.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

int64_t whole_panels(int64_t n) { return (n + kPanelWidth - 1) / kPanelWidth * kPanelWidth; }

// `columns` rows of n values from x on, times a panel of n rows; both `stride` floats apart.
void multiply(const float *panel, int64_t n, const float *x, int64_t x_stride, int64_t columns, PanelOut out) {
  for (int64_t i = 0; i < n; i += kPanelSpan) {
    out.first = i == 0;
    panel_product<Float32>(panel + i * kPanelWidth, n - i < kPanelSpan ? n - i : kPanelSpan, x + i, x_stride, columns, out);
  }
}

// Scores of n keys to weights, of which begin..end are seen; the others, and the lanes past n, weigh nothing.
void softmax(float *w, int64_t n, int64_t begin, int64_t end, float scale) {
  for (int64_t i = 0; i < begin; i++) w[i] = -INFINITY;
  for (int64_t i = end; i < whole_panels(n); i++) w[i] = -INFINITY;
  const vf by = set1(scale);
  vf m = set1(-INFINITY);
  for (int64_t i = 0; i < n; i += kWidth) {
    const vf x = load(w + i) * by;
    store(w + i, x);
    m = larger(m, x);
  }
  const vf max = set1(largest(m));
  vf total = zero();
  for (int64_t i = 0; i < n; i += kWidth) {
    const vf e = exp(load(w + i) - max);
    store(w + i, e);
    total = total + e;
  }
  const vf inverse = set1(1.0f / sum(total));
  for (int64_t i = 0; i < n; i += kWidth) store(w + i, load(w + i) * inverse);
}

}  // namespace

int64_t text_attention_floats(const TextTile &t, int64_t hd) {
  return whole_panels(t.rows) * (t.end - t.begin + hd) + whole_panels(hd) * t.rows;
}

void attend_text(const TextAttention &a, const TextTile &t, float *memory) {
  const int64_t stride = a.kv_heads * a.hd, at = t.first * stride + t.head / (a.heads / a.kv_heads) * a.hd;
  const int64_t q_stride = a.heads * a.hd, from = t.begin * q_stride + t.head * a.hd;
  const int64_t queries = t.end - t.begin, width = whole_panels(t.rows);
  float *const weights = memory, *panel = weights + queries * width;
  for (int64_t key = 0; key < t.rows; key += kPanelWidth, panel += kPanelWidth * a.hd) {
    const auto *rows = reinterpret_cast<const uint8_t *>(a.k + at + key * stride);
    transpose_rows<Float32>(rows, stride * 4, t.rows - key, 0, a.hd, panel);
    multiply(panel, a.hd, a.q + from, q_stride, queries, {weights + key, width, kPanelWidth, true, nullptr});
  }
  for (int64_t j = 0; j < queries; j++) {
    const int64_t own = a.own + t.begin + j - t.first;
    const bool all = a.window == 0 || a.window >= t.rows;
    const int64_t begin = all || own < a.window ? 0 : own - a.window;
    const int64_t end = a.causal ? own + 1 : all || t.rows - own <= a.window ? t.rows : own + a.window + 1;
    softmax(weights + j * width, t.rows, begin, end, a.scale);
  }
  for (int64_t i = 0; i < a.hd; i += kPanelWidth, panel += kPanelWidth * t.rows) {
    const int64_t n = a.hd - i < kPanelWidth ? a.hd - i : kPanelWidth;
    for (int64_t row = 0; row < t.rows; row++)
      for (int64_t j = 0; j < kPanelWidth; j += kWidth) {
        const float *value = a.v + at + row * stride + i + j;
        store(panel + row * kPanelWidth + j, j < n ? load_part(value, n - j) : zero());
      }
    multiply(panel, t.rows, weights, width, queries, {a.out + from + i, q_stride, n, true, nullptr});
  }
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
