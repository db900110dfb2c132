// Largest values of a row of logits.
#include <algorithm>
#include <cmath>
#include <functional>
#include <new>
#include <vector>

#include "golem_kernels.h"
#include "half.h"
#include "kernels.h"

namespace {

// Floats as unsigned numbers in the same order, every NaN at the bottom.
uint32_t ordered(float x) {
  if (x != x) return 0;
  const uint32_t u = golem::bits_of(x + 0.0f);  // -0 counts as 0
  return u & 0x80000000u ? ~u : u | 0x80000000u;
}

// Larger key: larger value, then lower index.
uint64_t key_of(float x, int64_t i) { return static_cast<uint64_t>(ordered(x)) << 32 | static_cast<uint32_t>(~static_cast<uint32_t>(i)); }
int32_t index_of(uint64_t key) { return static_cast<int32_t>(~static_cast<uint32_t>(key)); }

// The k largest of x[n] in any order, into keys. Candidates are gathered above a floor, which rises to the k-th largest
// whenever their buffer is full.
void gather(const float *x, int64_t n, size_t k, std::vector<uint64_t> &keys) {
  const size_t room = std::max<size_t>(4 * k, 1024) + 64;
  std::vector<int32_t> index(room);
  const auto keep_largest = [&](int64_t count) {
    keys.clear();
    for (int64_t j = 0; j < count; j++) keys.push_back(key_of(x[index[static_cast<size_t>(j)]], index[static_cast<size_t>(j)]));
    if (keys.size() <= k) return;
    std::nth_element(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(k) - 1, keys.end(), std::greater<uint64_t>());
    keys.resize(k);
  };
  float floor = -INFINITY;
  int64_t count = 0;
  for (int64_t i = 0; i < n;) {
    const int64_t stopped = golem::kernels().collect(x, i, n, floor, index.data(), &count, static_cast<int64_t>(room));
    if (stopped < n) {
      keep_largest(count);
      count = static_cast<int64_t>(keys.size());
      for (size_t j = 0; j < keys.size(); j++) index[j] = index_of(keys[j]);
      // what follows must be larger: of equal values the earlier come first
      floor = nextafterf(x[index_of(*std::min_element(keys.begin(), keys.end()))], INFINITY);
    }
    i = stopped;
  }
  keep_largest(count);
  for (int64_t i = 0; i < n && keys.size() < k; i++)
    if (x[i] != x[i]) keys.push_back(key_of(x[i], i));  // NaN, below all
}

}  // namespace

int64_t golem_argmax(const float *x, int64_t n, int32_t *finite) {
  if (x == nullptr || finite == nullptr || n <= 0) return -1;
  bool all = true;
  const int64_t best = golem::kernels().argmax(x, n, &all);
  *finite = all;
  return best;
}

int golem_top_k(const float *x, int64_t n, int64_t k, int32_t *index, float *value) {
  if (x == nullptr || index == nullptr || value == nullptr) return GOLEM_E_NULL;
  if (k <= 0 || k > n || n >= int64_t{1} << 31) return GOLEM_E_SHAPE;
  try {
    std::vector<uint64_t> keys;
    gather(x, n, static_cast<size_t>(k), keys);
    std::sort(keys.begin(), keys.end(), std::greater<uint64_t>());
    for (size_t j = 0; j < keys.size(); j++) {
      index[j] = index_of(keys[j]);
      value[j] = x[index[j]];
    }
  } catch (const std::bad_alloc &) {
    return GOLEM_E_MEMORY;
  }
  return GOLEM_OK;
}
