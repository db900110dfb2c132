// The gated delta rule (Yang, Kautz and Hatamizadeh 2024, arXiv 2412.06464), one row after the other, for a block of
// columns of one head's state. A column depends on no other, so the bits do not depend on how columns were handed out.
//
// With S the state before a row, its result needs no sweep of its own over the new state:
//   u = beta (v - g S^T k),  S' = g S + k u^T,  S'^T q = g S^T q + (k . q) u
// so the sweep that writes S' also sums S'^T k and S'^T q for the next row.
#include "isa_functions.h"
#include "simd.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

constexpr int kVectors = kDeltaColumns / kWidth;

// A value for each column of the block; columns past the state's are zero.
struct Columns {
  vf v[kVectors];
};

GOLEM_INLINE Columns none() {
  Columns c;
  for (int n = 0; n < kVectors; n++) c.v[n] = zero();
  return c;
}

template <bool kWhole>
GOLEM_INLINE vf load_columns(const float *p, int n, int64_t columns) {
  const int64_t rest = columns - n * kWidth;
  if (kWhole || rest >= kWidth) return load(p + n * kWidth);
  return rest > 0 ? load_n(p + n * kWidth, static_cast<int>(rest)) : zero();
}

template <bool kWhole>
GOLEM_INLINE void store_columns(float *p, vf x, int n, int64_t columns) {
  const int64_t rest = columns - n * kWidth;
  if (kWhole || rest >= kWidth) store(p + n * kWidth, x);
  else if (rest > 0) store_n(p + n * kWidth, x, static_cast<int>(rest));
}

float dot(const float *a, const float *b, int64_t n) {
  vf s = zero();
  for (int64_t i = 0; i < n; i += kWidth) s = fma(load_part(a + i, n - i), load_part(b + i, n - i), s);
  return sum(s);
}

// One head's block of columns.
template <bool kWhole>
struct Block {
  const Delta &delta;
  const int64_t head, begin, columns;
  float *const state;  // [key_dim, value_dim], from the block's first column on
  const float *k = nullptr, *q = nullptr;  // the next row's
  Columns by_k = none(), by_q = none();    // its S^T k and S^T q
  alignas(64) float scratch[kMaxDeltaKeys * kDeltaColumns];  // the state between rows

  Block(const Delta &delta, int64_t head, int64_t begin, int64_t columns, float *state)
      : delta(delta), head(head), begin(begin), columns(columns), state(state) {}

  void look_at(int64_t row) {
    const int64_t key_dim = delta.key_dim, keys = delta.key_heads * key_dim, at = head % delta.key_heads * key_dim;
    q = delta.qkv + row * (2 * keys + delta.value_heads * delta.value_dim) + at;
    k = q + keys;
  }

  // The state into the scratch memory, and the first row's sums.
  void take_in(bool fresh) {
    Columns sum_k = none(), sum_q = none();
    // The next head's state follows; blocks of columns leave gaps that the hardware does not foresee.
    const float *ahead = state - begin + delta.key_dim * (delta.value_dim + begin);
    for (int64_t i = 0; i < delta.key_dim; i++) {
      const vf ki = set1(k[i]), qi = set1(q[i]);
      for (int n = 0; n < kDeltaColumns; n += 16) __builtin_prefetch(ahead + i * kDeltaColumns + n, 1, 2);
      for (int n = 0; n < kVectors; n++) {
        const vf s = fresh ? zero() : load_columns<kWhole>(state + i * delta.value_dim, n, columns);
        store(scratch + i * kDeltaColumns + n * kWidth, s);
        sum_k.v[n] = fma(ki, s, sum_k.v[n]);
        sum_q.v[n] = fma(qi, s, sum_q.v[n]);
      }
    }
    by_k = sum_k;
    by_q = sum_q;
  }

  // The row's result; what it adds to the state is k u^T, u is returned.
  Columns result(int64_t row) const {
    const int64_t at = row * delta.value_heads + head;
    const vf g = set1(delta.decay[at]), beta = set1(delta.beta[at]), scale = set1(delta.scale);
    const vf kq = set1(dot(k, q, delta.key_dim));
    const float *v = k + (delta.key_heads - head % delta.key_heads) * delta.key_dim + head * delta.value_dim + begin;
    Columns u;
    for (int n = 0; n < kVectors; n++) {
      u.v[n] = beta * (load_columns<kWhole>(v, n, columns) - g * by_k.v[n]);
      const vf o = scale * fma(kq, u.v[n], g * by_q.v[n]);
      store_columns<kWhole>(delta.out + at * delta.value_dim + begin, o, n, columns);
    }
    return u;
  }

  // S = g S + k u^T of a row, and the sums of the row after it.
  void update(int64_t row, const Columns &u, int64_t next) {
    const vf g = set1(delta.decay[row * delta.value_heads + head]);
    const float *old_k = k;
    look_at(next);
    Columns sum_k = none(), sum_q = none();
    for (int64_t i = 0; i < delta.key_dim; i++) {
      const vf old = set1(old_k[i]), ki = set1(k[i]), qi = set1(q[i]);
      float *at = scratch + i * kDeltaColumns;
      for (int n = 0; n < kVectors; n++) {
        const vf s = fma(old, u.v[n], g * load(at + n * kWidth));
        store(at + n * kWidth, s);
        sum_k.v[n] = fma(ki, s, sum_k.v[n]);
        sum_q.v[n] = fma(qi, s, sum_q.v[n]);
      }
    }
    by_k = sum_k;
    by_q = sum_q;
  }

  // S = g S + k u^T of the last row, back to where the state lies.
  void give_back(int64_t row, const Columns &u) const {
    const vf g = set1(delta.decay[row * delta.value_heads + head]);
    for (int64_t i = 0; i < delta.key_dim; i++) {
      const vf ki = set1(k[i]);
      for (int n = 0; n < kVectors; n++) {
        const vf s = fma(ki, u.v[n], g * load(scratch + i * kDeltaColumns + n * kWidth));
        store_columns<kWhole>(state + i * delta.value_dim, s, n, columns);
      }
    }
  }

  void run(const int64_t *rows, int64_t count, bool fresh) {
    look_at(rows[0]);
    take_in(fresh);
    for (int64_t t = 0; t + 1 < count; t++) update(rows[t], result(rows[t]), rows[t + 1]);
    give_back(rows[count - 1], result(rows[count - 1]));
  }
};

}  // namespace

void delta(const Delta &delta, const int64_t *rows, int64_t count, float *state, bool fresh, int64_t head, int64_t begin) {
  const int64_t columns = delta.value_dim - begin;
  float *at = state + head * delta.key_dim * delta.value_dim + begin;
  if (columns >= kDeltaColumns) Block<true>(delta, head, begin, kDeltaColumns, at).run(rows, count, fresh);
  else Block<false>(delta, head, begin, columns, at).run(rows, count, fresh);
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
