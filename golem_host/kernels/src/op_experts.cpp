// The expert mixture: which experts a row uses, products with their matrices, the weighted sum of what they give.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <new>
#include <vector>

#include "command.h"
#include "scratch.h"

namespace golem {
namespace {

constexpr int64_t kMaxExperts = 65536;

// Whether a logit comes before another: larger, or a number before a NaN.
bool before(float a, float b) { return a > b || (a == a && b != b); }

// The chosen experts with their logits in the place of weights.
void choose(golem_route *out, const float *logits, int64_t experts, int64_t used) {
  int64_t count = 0;
  for (int64_t e = 0; e < experts; e++) {
    if (count == used && !before(logits[e], out[used - 1].weight)) continue;
    int64_t at = count < used ? count++ : used - 1;
    for (; at > 0 && before(logits[e], out[at - 1].weight); at--) out[at] = out[at - 1];
    out[at] = {static_cast<int32_t>(e), logits[e]};
  }
}

// Replaces the logits of the chosen by their weights.
void weigh(golem_route *out, const float *logits, int64_t experts, int64_t used, int64_t weighting) {
  if (weighting == GOLEM_WEIGHTING_SIGMOID) {
    for (int64_t j = 0; j < used; j++) out[j].weight = 1.0f / (1.0f + std::exp(-out[j].weight));
    return;
  }
  const float largest = out[0].weight;
  double total = 0;
  if (weighting == GOLEM_WEIGHTING_SOFTMAX)
    for (int64_t e = 0; e < experts; e++) total += std::exp(logits[e] - largest);
  else
    for (int64_t j = 0; j < used; j++) total += std::exp(out[j].weight - largest);
  for (int64_t j = 0; j < used; j++) out[j].weight = std::exp(out[j].weight - largest) / static_cast<float>(total);
}

// The columns of one expert: pairs[first .. first + count), each (row * used + slot). Its m rows are cut in chunks of
// `step`, the first of which is number `chunk` of the command.
struct Group {
  int64_t expert, first, count, step, chunk;
};

// Sorts the pairs by expert, ascending within each.
void group(const golem_route *routes, int64_t pair_count, int64_t experts, std::vector<Group> &groups, std::vector<int64_t> &pairs) {
  std::vector<int64_t> next(static_cast<size_t>(experts));
  for (int64_t p = 0; p < pair_count; p++) next[routes[p].expert]++;
  int64_t first = 0;
  for (int64_t e = 0; e < experts; e++) {
    const int64_t count = next[e];
    if (count > 0) groups.push_back({e, first, count, 0, 0});
    next[e] = first;
    first += count;
  }
  pairs.resize(static_cast<size_t>(pair_count));
  for (int64_t p = 0; p < pair_count; p++) pairs[next[routes[p].expert]++] = p;
}

// One EXPERTS command.
class Mixture {
 public:
  explicit Mixture(const Command &c)
      : c_(c), m_(c.i(0)), k_(c.i(1)), type_(c.i(2)), used_(c.i(4)), inner_(c.i(5)), laid_(c.i(8) != 0), info_(block_info(type_)),
        x_bytes_(golem_act_bytes(info_.act, k_)), fn_(laid_ ? kernels().layout[type_].product : kernels().product[type_]) {}

  int run() {
    group(c_.in<golem_route>(2), c_.rows * used_, c_.i(3), groups_, pairs_);
    const double chunk_ns = Command::chunk_ns(total_ns(), c_.pool.threads());
    const int64_t chunks = cut(chunk_ns);
    if (chunk_ns == 0) {
      for (int64_t at = 0; at < chunks; at++) work(at);
    } else {
      c_.pool.run(chunks, [&](int64_t at) { work(at); });
    }
    return short_of_memory_ ? GOLEM_E_MEMORY : GOLEM_OK;
  }

 private:
  // The matrix of an expert from row `row` of its m on: the one place that knows how matrices lie.
  Product matrix(int64_t expert, int64_t row) const {
    const int64_t stride = c_.i(6), at = c_.i(7) + row;
    Product product{};
    if (laid_) {
      const int64_t height = kernels().product_rows[type_], tiles = (stride + height - 1) / height;
      product.w_stride = kernels().layout[type_].tile_bytes(k_);
      product.w = c_.in<uint8_t>(3) + (expert * tiles + at / height) * product.w_stride;
    } else {
      product.w_stride = row_bytes();
      product.w = c_.in<uint8_t>(3) + (expert * stride + at) * product.w_stride;
    }
    product.x_stride = x_bytes_;
    product.m = m_ - row;
    product.k = k_;
    return product;
  }

  int64_t row_bytes() const { return k_ / info_.n * info_.bytes; }
  const uint8_t *x_of(int64_t pair) const { return c_.in<uint8_t>(1) + (inner_ == 1 ? pair / used_ : pair) * x_bytes_; }
  float *out_of(int64_t pair) const { return c_.out<float>(0) + pair * m_; }
  double row_ns(const Group &g) const { return product_ns(row_bytes(), k_, g.count); }

  double total_ns() const {
    double total = 0;
    for (const Group &g : groups_) total += row_ns(g) * static_cast<double>(m_);
    return total;
  }

  // Chunks of about `chunk_ns` each (0: one for each expert); returns their number.
  int64_t cut(double chunk_ns) {
    const int64_t align = kernels().product_rows[type_];
    int64_t chunks = 0;
    for (Group &g : groups_) {
      g.step = chunk_ns == 0 ? m_ : (static_cast<int64_t>(chunk_ns / row_ns(g)) + align) / align * align;
      g.chunk = chunks;
      chunks += (m_ + g.step - 1) / g.step;
    }
    return chunks;
  }

  void work(int64_t chunk) {
    const auto after = std::upper_bound(groups_.begin(), groups_.end(), chunk, [](int64_t at, const Group &g) { return at < g.chunk; });
    const Group &g = *(after - 1);
    const int64_t begin = (chunk - g.chunk) * g.step, end = std::min(begin + g.step, m_);
    if (g.count == 1) multiply_one(g, begin, end);
    else multiply_many(g, begin, end);
  }

  void multiply_one(const Group &g, int64_t begin, int64_t end) const {
    Product product = matrix(g.expert, 0);
    product.x = x_of(pairs_[g.first]);
    product.out = out_of(pairs_[g.first]);
    product.rows = 1;
    fn_(product, begin, end);
  }

  // The products of columns that lie apart: their activation rows are put side by side, and what comes out is put where
  // it belongs.
  void multiply_many(const Group &g, int64_t begin, int64_t end) {
    thread_local Scratch<float> results;
    Product product = matrix(g.expert, begin);
    product.m = end - begin;
    product.rows = g.count;
    product.x = gathered(g);
    product.out = results.of(g.count * product.m);
    if (product.x == nullptr || product.out == nullptr) {
      short_of_memory_ = true;
      return;
    }
    fn_(product, 0, product.m);
    for (int64_t j = 0; j < g.count; j++)
      memcpy(out_of(pairs_[g.first + j]) + begin, product.out + j * product.m, static_cast<size_t>(product.m) * sizeof(float));
  }

  // The activation rows of an expert, which a thread keeps for its next chunks of the same expert.
  const uint8_t *gathered(const Group &g) const {
    thread_local Scratch<uint8_t> rows;
    thread_local int64_t command = -1, expert = -1;
    if (command == number_ && expert == g.expert) return rows.of(g.count * x_bytes_);
    command = number_;
    expert = -1;
    uint8_t *to = rows.of(g.count * x_bytes_);
    if (to == nullptr) return nullptr;
    for (int64_t j = 0; j < g.count; j++) memcpy(to + j * x_bytes_, x_of(pairs_[g.first + j]), static_cast<size_t>(x_bytes_));
    expert = g.expert;
    return to;
  }

  static std::atomic<int64_t> commands_;

  const Command &c_;
  const int64_t m_, k_, type_, used_, inner_;
  const bool laid_;
  const BlockInfo info_;
  const int64_t x_bytes_;
  const ProductFn fn_;
  const int64_t number_ = commands_++;  // tells a thread whose rows it has gathered
  std::vector<Group> groups_;
  std::vector<int64_t> pairs_;
  std::atomic<bool> short_of_memory_{false};
};

std::atomic<int64_t> Mixture::commands_{0};

}  // namespace

int run_route(const Command &c) {
  const int64_t experts = c.i(0), used = c.i(1), weighting = c.i(2);
  if (!c.pointers(2)) return GOLEM_E_NULL;
  if (weighting < GOLEM_WEIGHTING_SOFTMAX || weighting > GOLEM_WEIGHTING_SIGMOID) return GOLEM_E_TYPE;
  if (!sizes_fit(experts, used) || used > experts || experts > kMaxExperts) return GOLEM_E_SHAPE;
  const float *scale = c.in<float>(2);
  c.share(c.rows, 5.0 * static_cast<double>(experts + used), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      golem_route *out = c.out<golem_route>(0) + r * used;
      const float *logits = c.in<float>(1) + r * experts;
      choose(out, logits, experts, used);
      weigh(out, logits, experts, used, weighting);
      for (int64_t j = 0; j < used; j++) out[j].weight *= scale == nullptr ? c.f(0) : c.f(0) * scale[out[j].expert];
    }
  });
  return GOLEM_OK;
}

int run_experts(const Command &c) {
  const int64_t m = c.i(0), k = c.i(1), experts = c.i(3), used = c.i(4), inner = c.i(5), stride = c.i(6), first = c.i(7);
  const BlockInfo info = block_info(c.i(2));
  if (!c.pointers(4)) return GOLEM_E_NULL;
  const int64_t laid = c.i(8);
  if (info.n == 0 || laid < 0 || laid > 1 || (laid != 0 && kernels().layout[c.i(2)].product == nullptr)) return GOLEM_E_TYPE;
  if (!sizes_fit(m, k, experts, used, inner, stride) || k % info.n != 0 || golem_act_bytes(info.act, k) == 0 || experts > kMaxExperts ||
      (inner != 1 && inner != used) || first < 0 || first > stride - m ||
      (laid != 0 && first % kernels().product_rows[c.i(2)] != 0))
    return GOLEM_E_SHAPE;
  const golem_route *routes = c.in<golem_route>(2);
  for (int64_t pair = 0; pair < c.rows * used; pair++)
    if (routes[pair].expert < 0 || routes[pair].expert >= experts) return GOLEM_E_ID;
  try {
    return Mixture(c).run();
  } catch (const std::bad_alloc &) {
    return GOLEM_E_MEMORY;
  }
}

int run_mix(const Command &c) {
  const int64_t n = c.i(0), used = c.i(1);
  if (!c.pointers(3)) return GOLEM_E_NULL;
  if (!sizes_fit(n, used)) return GOLEM_E_SHAPE;
  c.share(c.rows, 0.25 * static_cast<double>(n * used), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++)
      kernels().mix(c.out<float>(0) + r * n, c.in<float>(1) + r * used * n, c.in<golem_route>(2) + r * used, used, n);
  });
  return GOLEM_OK;
}

}  // namespace golem
