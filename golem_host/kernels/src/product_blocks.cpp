// Portable quantized products, one weight row at a time. They define the order of every sum that the vector
// versions (product_lanes.cpp) keep to the bit: whole numbers are exact within a block; between blocks, in
// ascending order, sum = sum + (d_w * d_a) * float(whole), then the offset term, with no fused steps. A block of
// weights that spans several blocks of activations adds d_w * (((0 + d_a * float(whole)) + d_a * float(whole)) + ...).
#include "product_blocks.h"

#include "activation.h"
#include "decode.h"

namespace golem {
namespace {

int32_t dot(const int8_t *a, const int8_t *b, int n) {
  int32_t s = 0;
  for (int i = 0; i < n; i++) s += static_cast<int16_t>(a[i]) * static_cast<int16_t>(b[i]);
  return s;
}

// One block of 32 with a Q8_0 row of k values.
struct With8_0 {
  static constexpr int64_t n = 32;
  static void add(const Decoded &w, const uint8_t *x, int64_t k, int64_t b, float &sum) {
    sum = sum + (w.d * float_at(x, act32_d_at(k, b))) * static_cast<float>(dot(w.q, codes_at(x, 32 * b), 32));
  }
};

// One block of several times 32 with a Q8_0 row.
template <int kBlock>
struct Wide8_0 {
  static constexpr int64_t n = kBlock;
  static float part(const Decoded &w, const uint8_t *x, int64_t k, int64_t b, int64_t j) {
    const int64_t at = b * (kBlock / 32) + j;
    return float_at(x, act32_d_at(k, at)) * static_cast<float>(dot(w.q + 32 * j, codes_at(x, 32 * at), 32));
  }
  static void add(const Decoded &w, const uint8_t *x, int64_t k, int64_t b, float &sum) {
    float inner = 0;
    for (int64_t j = 0; j < kBlock / 32; j++) inner = inner + part(w, x, k, b, j);
    sum = sum + w.d * inner;
  }
};

// One block of 32 with a Q8_1 row: the offset m is -dmin.
struct With8_1 {
  static constexpr int64_t n = 32;
  static void add(const Decoded &w, const uint8_t *x, int64_t k, int64_t b, float &sum) {
    With8_0::add(w, x, k, b, sum);
    sum = sum + -w.dmin * float_at(x, act32_s_at(k, b));
  }
};

// One block of 256 with a Q8_K row.
template <bool kMins>
struct With8_K {
  static constexpr int64_t n = 256;
  static void add(const Decoded &w, const uint8_t *x, int64_t k, int64_t b, float &sum) {
    const int8_t *q = codes_at(x, 256 * b);
    const int16_t *sums = shorts_at(x, act256_sum16_at(k, b));
    const float d = float_at(x, act256_d_at(k, b));
    int32_t scaled = 0, mins = 0;
    for (int j = 0; j < 256 / w.sub; j++) scaled += w.scale[j] * dot(w.q + j * w.sub, q + j * w.sub, w.sub);
    sum = sum + (w.d * d) * static_cast<float>(scaled);
    if (!kMins) return;
    for (int j = 0; j < 16; j++) mins += w.min[16 * j / w.sub] * sums[j];
    sum = sum - (w.dmin * d) * static_cast<float>(mins);
  }
};

// Columns are taken a few at a time, so that a decoded block is used more than once.
template <int type, class With>
void product(const Product &p, int64_t begin, int64_t end) {
  constexpr int64_t kColumns = 8;
  const DecodeFn decode = block_decoder(type);
  const int64_t bytes = block_info(type).bytes;
  Decoded block;
  for (int64_t o = begin; o < end; o++) {
    for (int64_t c = 0; c < p.rows; c += kColumns) {
      const int64_t count = p.rows - c < kColumns ? p.rows - c : kColumns;
      float sum[kColumns] = {0};
      for (int64_t b = 0; b < p.k / With::n; b++) {
        decode(p.w + o * p.w_stride + b * bytes, block);
        for (int64_t j = 0; j < count; j++) With::add(block, p.x + (c + j) * p.x_stride, p.k, b, sum[j]);
      }
      const float bias = p.bias == nullptr ? 0.0f : p.bias[o];
      for (int64_t j = 0; j < count; j++) p.out[(c + j) * p.m + o] = sum[j] + bias;
    }
  }
}

}  // namespace

ProductFn portable_product(int type) {
  switch (type) {
    case Q4_0: return product<Q4_0, With8_0>;
    case Q4_1: return product<Q4_1, With8_1>;
    case Q5_0: return product<Q5_0, With8_0>;
    case Q5_1: return product<Q5_1, With8_1>;
    case Q8_0: return product<Q8_0, With8_0>;
    case IQ4_NL: return product<IQ4_NL, With8_0>;
    case Q2_K: return product<Q2_K, With8_K<true>>;
    case Q3_K: return product<Q3_K, With8_K<false>>;
    case Q4_K: return product<Q4_K, With8_K<true>>;
    case Q5_K: return product<Q5_K, With8_K<true>>;
    case Q6_K: return product<Q6_K, With8_K<false>>;
    case IQ4_XS: return product<IQ4_XS, With8_K<false>>;
    case MXFP4: return product<MXFP4, With8_0>;
    case Q1_0: return product<Q1_0, Wide8_0<128>>;
    case Q2_0: return product<Q2_0, Wide8_0<64>>;
    case PQ2_0: return product<PQ2_0, Wide8_0<128>>;
    case PTQ1_0: return product<PTQ1_0, Wide8_0<128>>;
    case TQ1_0: return product<TQ1_0, With8_K<false>>;
    case TQ2_0: return product<TQ2_0, With8_K<false>>;
    default: return nullptr;
  }
}

}  // namespace golem
