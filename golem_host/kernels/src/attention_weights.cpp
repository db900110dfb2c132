// Scores of one query to weights: softmax. Over f16 caches weights are rounded to half, as ggml does without flash
// attention; over q8_0 caches they stay float32, as in its flash attention, the only one it has for them, and over f32.
#include <cmath>

#include "attention.h"
#include "isa_functions.h"
#include "simd.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

constexpr int64_t kSummed = 1024;  // weights whose sum is float32, in kLanes lanes; those sums are added in double
constexpr int kLanes = 16;         // whatever a vector holds, so that a sum has the same bits everywhere
constexpr int kVectors = kLanes / kWidth;

// Of all lanes, in halves: 8 lanes of sums, then 4, 2 and 1.
float sum_of_lanes(vf *part) {
  for (int n = kVectors / 2; n > 0; n /= 2)
    for (int j = 0; j < n; j++) part[j] = part[j] + part[j + n];
  if (kWidth > 4) return sum(part[0]);
  float lanes[kWidth];
  store(lanes, part[0]);
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

}  // namespace

void attend_weights(const Attention &a, const Tile &t, int64_t query) {
  const int64_t pos = t.pos + query / group_of(a), n = pos + 1 - first_of(a, pos);
  float *w = t.weights + query * t.stride;
  for (int64_t i = n; i < attention_stride(n); i++) w[i] = -INFINITY;  // the lanes past n weigh nothing
  const vf by = set1(a.scale), cap = set1(a.softcap);
  vf m = set1(-INFINITY);
  for (int64_t i = 0; i < n; i += kWidth) {
    vf x = load(w + i) * by;
    if (a.softcap > 0) x = cap * tanh(x / cap);
    store_part(w + i, x, n - i);
    m = larger(m, load(w + i));
  }
  const vf max = set1(largest(m));
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kSummed) {
    const int64_t end = n - begin < kSummed ? n : begin + kSummed;
    vf part[kVectors];
    for (int j = 0; j < kVectors; j++) part[j] = zero();
    for (int64_t i = begin; i < end; i += kLanes)
      for (int j = 0; j < kVectors; j++) {
        const vf e = exp(load(w + i + j * kWidth) - max);
        store(w + i + j * kWidth, e);
        part[j] = part[j] + e;
      }
    total += sum_of_lanes(part);
  }
  const vf inverse = set1(static_cast<float>(1.0 / total));
  for (int64_t i = 0; i < n; i += kWidth) {
    const vf x = load(w + i) * inverse;
    store(w + i, a.cache.type == kCacheF16 ? round_to_half(x) : x);
  }
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
