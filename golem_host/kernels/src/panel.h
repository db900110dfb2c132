// Products of float rows with a panel: the weights of kPanelWidth outputs side by side, input after input.
//
// An output is summed in one lane, so its bits depend on its weights and its row alone: a fused chain over each span of
// kPanelSpan inputs in their order, and the spans' sums added in theirs.
#pragma once
#include "simd.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {

constexpr int kPanelVectors = kWidth == 4 ? 4 : 2;
constexpr int kPanelWidth = kPanelVectors * kWidth;
constexpr int kPanelColumns = kWidth == 16 ? 12 : 6;  // input rows whose sums fit the registers
constexpr int64_t kPanelSpan = 512;                   // long enough that adding up spans costs little
constexpr int64_t kLine = 64;                         // bytes of a cache line

// What a panel's words are to a product: W::of gives vector v of input i + u, i a multiple of 4, and W::add what x times it adds to s.
template <class W>
struct Input {
  static constexpr int64_t kInputs = 1;  // of a word
  template <class Word>
  static GOLEM_MEMBER vf of(const Word *panel, int64_t i, int u, int v) {
    return W::get(panel + (i + u) * kPanelWidth + v * kWidth);
  }
  static GOLEM_MEMBER vf add(vf x, vf w, vf s) { return add_product(s, x, w); }
};

struct Float32 : Input<Float32> {
  using Word = float;
  static vf get(const float *p) { return load(p); }
  static vf get_n(const float *p, int n) { return load_n(p, n); }
};

// Inputs i .. i + k of `rows` rows from w on, `stride` bytes apart, as a panel of floats; where there are no rows it is zero.
template <class W>
void transpose_rows(const uint8_t *w, int64_t stride, int64_t rows, int64_t i, int64_t k, float *panel) {
  for (int64_t r = 0; r < kPanelWidth; r += kWidth)
    for (int64_t at = 0; at < k; at += kWidth) {
      const int64_t n = k - at < kWidth ? k - at : kWidth;
      vf a[kWidth];
      for (int j = 0; j < kWidth; j++) {
        const typename W::Word *row = reinterpret_cast<const typename W::Word *>(w + (r + j) * stride) + i + at;
        a[j] = r + j >= rows ? zero() : n == kWidth ? W::get(row) : W::get_n(row, static_cast<int>(n));
      }
      transpose(a);
      for (int64_t j = 0; j < n; j++) store(panel + (at + j) * kPanelWidth + r, a[j]);
    }
}

// Where a panel's products go: columns `stride` floats apart, of which the first `width` outputs are there. They are added
// to what is there unless they are the `first` span's; `bias`, if any, is added last.
struct PanelOut {
  float *at;
  int64_t stride;
  int64_t width;
  bool first;
  const float *bias;
};

// Adds inputs i .. i + n to the sums of C columns, three of which share a pointer: as many as x86 addresses reach.
template <class W, int C>
GOLEM_INLINE void add_inputs(const typename W::Word *panel, const float *const *row, int64_t stride, int64_t i, int n,
                             vf (*s)[kPanelVectors]) {
  for (int u = 0; u < n; u++) {
    vf w[kPanelVectors];
    for (int v = 0; v < kPanelVectors; v++) w[v] = W::of(panel, i, u, v);
    for (int j = 0; j < C; j++) {
      const vf y = set1(row[j / 3][j % 3 * stride + i + u]);
      for (int v = 0; v < kPanelVectors; v++) s[j][v] = W::add(y, w[v], s[j][v]);
    }
  }
}

// C columns from x on, which lie `stride` floats apart.
template <class W, int C>
GOLEM_INLINE void panel_columns(const typename W::Word *panel, int64_t k, const float *x, int64_t stride,
                                const PanelOut &out) {
  const float *row[(C + 2) / 3];
  for (int j = 0; j < C; j += 3) row[j / 3] = x + j * stride;
  for (int j = 0; j < C; j++)
    for (int v = 0; v < kPanelVectors; v += kPanelVectors / 2) __builtin_prefetch(out.at + j * out.stride + v * kWidth, 1, 3);
  vf s[C][kPanelVectors];
  for (int j = 0; j < C; j++)
    for (int v = 0; v < kPanelVectors; v++) s[j][v] = zero();
  int64_t i = 0;
  for (; i + 4 <= k; i += 4) add_inputs<W, C>(panel, row, stride, i, 4, s);
  if (i < k) add_inputs<W, C>(panel, row, stride, i, static_cast<int>(k - i), s);
  if (out.width == kPanelWidth && out.bias == nullptr) {
    for (int j = 0; j < C; j++)
      for (int v = 0; v < kPanelVectors; v++) {
        float *to = out.at + j * out.stride + v * kWidth;
        store(to, out.first ? s[j][v] : load(to) + s[j][v]);
      }
    return;
  }
  for (int j = 0; j < C; j++)
    for (int v = 0; v < kPanelVectors && v * kWidth < out.width; v++) {
      const int64_t n = out.width - v * kWidth;
      float *to = out.at + j * out.stride + v * kWidth;
      vf y = out.first ? s[j][v] : load_part(to, n) + s[j][v];
      if (out.bias != nullptr) y = y + load_part(out.bias + v * kWidth, n);
      store_part(to, y, n);
    }
}

// C columns at a time from column c on; where it stopped. Each time it asks for `step` bytes from `ahead` on, to be near later.
template <class W, int C>
GOLEM_INLINE int64_t many_columns(const typename W::Word *panel, int64_t k, const float *x, int64_t stride, int64_t c, int64_t columns,
                                  PanelOut out, const char *ahead = nullptr, int64_t step = 0) {
  float *const first = out.at;
  for (; c + C <= columns; c += C) {
    out.at = first + c * out.stride;
    for (int64_t i = 0; i < step; i += kLine) __builtin_prefetch(ahead + i, 0, 2);
    ahead += step;
    panel_columns<W, C>(panel, k, x + c * stride, stride, out);
  }
  return c;
}

// A span of a panel, k <= kPanelSpan inputs, times `columns` rows; `next`, if any, is the span that comes after it.
template <class W>
void panel_product(const typename W::Word *panel, int64_t k, const float *x, int64_t stride, int64_t columns, const PanelOut &out,
                   const typename W::Word *next = nullptr) {
  constexpr int64_t kInputBytes = kPanelWidth * sizeof(typename W::Word);
  const int64_t groups = columns / kPanelColumns;
  const int64_t step = next == nullptr || groups < 2 ? 0 : (k * kInputBytes / groups + kLine - 1) / kLine * kLine;
  int64_t c = many_columns<W, kPanelColumns>(panel, k, x, stride, 0, columns, out, reinterpret_cast<const char *>(next), step);
  if (kPanelColumns > 8) c = many_columns<W, 8>(panel, k, x, stride, c, columns, out);
  c = many_columns<W, 4>(panel, k, x, stride, c, columns, out);
  c = many_columns<W, 2>(panel, k, x, stride, c, columns, out);
  many_columns<W, 1>(panel, k, x, stride, c, columns, out);
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
