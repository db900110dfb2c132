// Largest values of a row of logits. The maxima of blocks rule out nearly everything.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <new>
#include <vector>

#include "command.h"
#include "half.h"

namespace {

using golem::kMaximaBlock;

// Floats as unsigned numbers in the same order, every NaN at the bottom.
uint32_t ordered(float x) {
  if (x != x) return 0;
  const uint32_t u = golem::bits_of(x + 0.0f);  // -0 counts as 0
  return u & 0x80000000u ? ~u : u | 0x80000000u;
}

// Larger key: larger value, then lower index.
uint64_t key_of(float x, int64_t i) { return static_cast<uint64_t>(ordered(x)) << 32 | static_cast<uint32_t>(~static_cast<uint32_t>(i)); }
int32_t index_of(uint64_t key) { return static_cast<int32_t>(~static_cast<uint32_t>(key)); }

int64_t blocks_of(int64_t n) { return (n + kMaximaBlock - 1) / kMaximaBlock; }

struct Maxima {
  std::vector<float> of_block;

  Maxima(const float *x, const float *known, int64_t n) : of_block(static_cast<size_t>(blocks_of(n))) {
    if (known != nullptr)
      std::copy_n(known, of_block.size(), of_block.begin());
    else
      golem::kernels().block_maxima(x, n, of_block.data());
  }

  // A value that at least k of the row reach.
  float reached_by(size_t k) const {
    if (k > of_block.size()) return -INFINITY;
    std::vector<float> sorted(of_block);
    const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(k) - 1;
    std::nth_element(sorted.begin(), at, sorted.end(), std::greater<float>());
    return *at;
  }
};

// The k largest, in any order, of values that are offered in the order of their indices.
class Largest {
 public:
  Largest(const float *x, size_t k, float floor) : x_(x), k_(k), floor_(floor), index_(std::max<size_t>(4 * k, 1024)) {}

  float floor() const { return floor_; }

  void offer(int64_t begin, int64_t end) {
    while (begin < end) {
      begin = golem::kernels().collect(x_, begin, end, floor_, index_.data(), &count_, static_cast<int64_t>(index_.size()));
      if (begin < end) keep_largest();
    }
  }

  const std::vector<uint64_t> &keys() {
    keep_largest();
    return keys_;
  }

 private:
  void keep_largest() {
    keys_.clear();
    for (int64_t j = 0; j < count_; j++) {
      const int32_t i = index_[static_cast<size_t>(j)];
      keys_.push_back(key_of(x_[i], i));
    }
    if (keys_.size() <= k_) return;
    std::nth_element(keys_.begin(), keys_.begin() + static_cast<std::ptrdiff_t>(k_) - 1, keys_.end(), std::greater<uint64_t>());
    keys_.resize(k_);
    for (size_t j = 0; j < k_; j++) index_[j] = index_of(keys_[j]);
    count_ = static_cast<int64_t>(k_);
    // what follows must be larger: of equal values the earlier come first
    floor_ = nextafterf(x_[index_of(*std::min_element(keys_.begin(), keys_.end()))], INFINITY);
  }

  const float *x_;
  size_t k_;
  float floor_;
  std::vector<int32_t> index_;
  int64_t count_ = 0;
  std::vector<uint64_t> keys_;
};

// The k largest, in their order.
std::vector<uint64_t> k_largest(const float *x, const float *maxima, int64_t n, int64_t k) {
  const size_t want = static_cast<size_t>(k);
  const Maxima known(x, maxima, n);
  Largest largest(x, want, known.reached_by(want));
  for (size_t b = 0; b < known.of_block.size(); b++) {
    const int64_t begin = static_cast<int64_t>(b) * kMaximaBlock, end = begin + kMaximaBlock;
    if (known.of_block[b] >= largest.floor()) largest.offer(begin, end < n ? end : n);
  }
  std::vector<uint64_t> keys = largest.keys();
  for (int64_t i = 0; i < n && keys.size() < want; i++)
    if (x[i] != x[i]) keys.push_back(key_of(x[i], i));  // NaN, below all
  std::sort(keys.begin(), keys.end(), std::greater<uint64_t>());
  return keys;
}

// How many of the first weights e^logit(j) reach `share` of the sum of `count`; never a leading weight of zero.
template <class Logit>
size_t leading_run(Logit logit, size_t count, double share) {
  double sum = 0;
  for (size_t j = 0; j < count; j++) sum += exp(static_cast<double>(logit(j)));
  const double target = std::max(share * sum, std::numeric_limits<double>::denorm_min());
  double running = 0;
  for (size_t j = 0; j < count; j++) {
    running += exp(static_cast<double>(logit(j)));
    if (running >= target) return j + 1;
  }
  return count;
}

}  // namespace

namespace golem {

int run_block_maxima(const Command &c) {
  const int64_t n = c.i(0), width = c.i(1);
  if (!c.pointers(2)) return GOLEM_E_NULL;
  if (!sizes_fit(n, width) || n > width) return GOLEM_E_SHAPE;
  const int64_t blocks = blocks_of(n);
  c.share(c.rows * blocks, 40.0, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const int64_t first = i % blocks * kMaximaBlock;
      float *maximum = c.out<float>(0) + i;
      const float *x = c.in<float>(1) + i / blocks * width + first;
      if (!kernels().block_maxima(x, std::min(n - first, kMaximaBlock), maximum)) *maximum = NAN;
    }
  });
  return GOLEM_OK;
}

int run_arg_largest(const Command &c) {
  const int64_t n = c.i(0), width = c.i(1);
  if (!c.pointers(3)) return GOLEM_E_NULL;
  if (!sizes_fit(n, width) || n > width || n >= int64_t{1} << 31) return GOLEM_E_SHAPE;
  const int64_t blocks = blocks_of(n);
  for (int64_t row = 0; row < c.rows; row++) {
    const float *x = c.in<float>(1) + row * width, *maxima = c.in<float>(2) + row * blocks;
    int64_t best = 0;
    bool finite = true;
    for (int64_t b = 0; b < blocks; b++) {
      finite &= maxima[b] == maxima[b];
      if (maxima[b] > maxima[best]) best = b;
    }
    const float *first = x + best * kMaximaBlock;
    c.out<int32_t>(0)[row] = finite ? static_cast<int32_t>(std::find(first, x + n, maxima[best]) - x) : -1;
  }
  return GOLEM_OK;
}

}  // namespace golem

int golem_top_k(const float *x, const float *maxima, int64_t n, int64_t k, int32_t *index, float *value) {
  if (x == nullptr || index == nullptr || value == nullptr) return GOLEM_E_NULL;
  if (k <= 0 || k > n || n >= int64_t{1} << 31) return GOLEM_E_SHAPE;
  try {
    const std::vector<uint64_t> keys = k_largest(x, maxima, n, k);
    for (size_t j = 0; j < keys.size(); j++) {
      index[j] = index_of(keys[j]);
      value[j] = x[index[j]];
    }
  } catch (const std::bad_alloc &) {
    return GOLEM_E_MEMORY;
  }
  return GOLEM_OK;
}

int64_t golem_draw(const float *x, const float *maxima, int64_t n, const golem_draw_rules *rules, double share) {
  if (x == nullptr || rules == nullptr || n <= 0 || n >= int64_t{1} << 31) return -2;
  if (rules->top_k <= 0 || !(rules->temperature > 0) || !(share >= 0 && share <= 1)) return -2;
  try {
    const std::vector<uint64_t> keys = k_largest(x, maxima, n, std::min(rules->top_k, n));
    const size_t least = static_cast<size_t>(std::max(rules->min_keep, int64_t{1}));
    const auto below = [&, best = x[index_of(keys[0])]](size_t j) { return x[index_of(keys[j])] - best; };
    if (!(below(0) == 0)) return -1;
    size_t count = keys.size();
    if (rules->top_p < 1) count = std::min(count, std::max(least, leading_run(below, count, rules->top_p)));
    size_t likely = 0;
    const float floor = x[index_of(keys[0])] + rules->ln_min_p;
    while (likely < count && x[index_of(keys[likely])] >= floor) likely++;
    count = std::min(count, std::max(least, likely));
    const auto scaled = [&](size_t j) { return below(j) / rules->temperature; };
    return index_of(keys[std::min(count, leading_run(scaled, count, share)) - 1]);
  } catch (const std::bad_alloc &) {
    return -3;
  }
}
