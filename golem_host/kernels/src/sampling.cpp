// Largest values of a row of logits.
#include <algorithm>
#include <functional>
#include <new>
#include <vector>

#include "golem_kernels.h"
#include "half.h"

namespace {

// Floats as unsigned numbers in the same order, every NaN at the bottom.
uint32_t ordered(float x) {
  if (x != x) return 0;
  const uint32_t u = golem::bits_of(x + 0.0f);  // -0 counts as 0
  return u & 0x80000000u ? ~u : u | 0x80000000u;
}

// Larger key: larger value, then lower index.
uint64_t key_of(float x, int64_t i) { return static_cast<uint64_t>(ordered(x)) << 32 | static_cast<uint32_t>(~static_cast<uint32_t>(i)); }

void keep_largest(std::vector<uint64_t> &keys, size_t k) {
  std::nth_element(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(k) - 1, keys.end(), std::greater<uint64_t>());
  keys.resize(k);
}

}  // namespace

int64_t golem_argmax(const float *x, int64_t n) {
  if (x == nullptr || n <= 0) return -1;
  int64_t best = 0;
  while (best < n && x[best] != x[best]) best++;
  if (best == n) return 0;
  for (int64_t i = best + 1; i < n; i++)
    if (x[i] > x[best]) best = i;
  return best;
}

int golem_top_k(const float *x, int64_t n, int64_t k, int32_t *index, float *value) {
  if (x == nullptr || index == nullptr || value == nullptr) return GOLEM_E_NULL;
  if (k <= 0 || k > n || n >= int64_t{1} << 31) return GOLEM_E_SHAPE;
  try {
    // candidates above a floor that rises whenever the buffer is full
    const size_t want = static_cast<size_t>(k), room = std::min(static_cast<size_t>(n), std::max<size_t>(4 * want, 1024));
    std::vector<uint64_t> keys;
    keys.reserve(room);
    uint64_t floor = 0;
    for (int64_t i = 0; i < n; i++) {
      const uint64_t key = key_of(x[i], i);
      if (key < floor) continue;
      if (keys.size() == room) {
        keep_largest(keys, want);
        floor = *std::min_element(keys.begin(), keys.end());
        if (key < floor) continue;
      }
      keys.push_back(key);
    }
    if (keys.size() > want) keep_largest(keys, want);
    std::sort(keys.begin(), keys.end(), std::greater<uint64_t>());
    for (size_t j = 0; j < want; j++) {
      index[j] = static_cast<int32_t>(~static_cast<uint32_t>(keys[j]));
      value[j] = x[index[j]];
    }
  } catch (const std::bad_alloc &) {
    return GOLEM_E_MEMORY;
  }
  return GOLEM_OK;
}
