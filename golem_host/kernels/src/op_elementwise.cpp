// Commands that work row by row or value by value: norms, gates, sums, products, caps.
#include <cmath>
#include <cstring>

#include "command.h"

namespace golem {
namespace {

// Calls fn(out, x, n) for spans of out[R,n] and x[R,n].
template <class Fn>
int unary(const Command &c, double ns_per_value, Fn fn) {
  const int64_t n = c.i(0);
  if (!c.pointers(2)) return GOLEM_E_NULL;
  if (!sizes_fit(n)) return GOLEM_E_SHAPE;
  c.share(c.rows, ns_per_value * static_cast<double>(n), [&](int64_t begin, int64_t end) {
    fn(c.out<float>(0) + begin * n, c.in<float>(1) + begin * n, (end - begin) * n);
  });
  return GOLEM_OK;
}

// out[R,n] = fn of a[R,n] and b, which is [R,n] or one row.
int binary(const Command &c, void (*fn)(float *, const float *, const float *, int64_t)) {
  const int64_t n = c.i(0), one_row = c.i(1);
  if (!c.pointers(3)) return GOLEM_E_NULL;
  if (!sizes_fit(n) || one_row < 0 || one_row > 1) return GOLEM_E_SHAPE;
  c.share(c.rows, 0.25 * static_cast<double>(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++)
      fn(c.out<float>(0) + r * n, c.in<float>(1) + r * n, c.in<float>(2) + (one_row ? 0 : r * n), n);
  });
  return GOLEM_OK;
}

}  // namespace

int run_rms_norm(const Command &c) {
  const int64_t n = c.i(0), inner = c.i(1);
  if (!c.pointers(2)) return GOLEM_E_NULL;
  if (!sizes_fit(n, inner)) return GOLEM_E_SHAPE;
  c.share(c.rows * inner, 0.7 * static_cast<double>(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++)
      kernels().rms_norm(c.out<float>(0) + r * n, c.in<float>(1) + r * n, c.in<float>(2), n, c.f(0));
  });
  return GOLEM_OK;
}

int run_l2_norm(const Command &c) {
  const int64_t n = c.i(0), groups = c.i(1), width = c.i(2);
  if (!c.pointers(2)) return GOLEM_E_NULL;
  if (!sizes_fit(n, groups, width) || groups > width / n) return GOLEM_E_SHAPE;
  c.share(c.rows, 0.7 * static_cast<double>(width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      const float *x = c.in<float>(1) + r * width;
      float *out = c.out<float>(0) + r * width;
      for (int64_t group = 0; group < groups; group++) kernels().l2_norm(out + group * n, x + group * n, n, c.f(0));
      if (out != x) memcpy(out + groups * n, x + groups * n, static_cast<size_t>(width - groups * n) * sizeof(float));
    }
  });
  return GOLEM_OK;
}

int run_layer_norm(const Command &c) {
  const int64_t n = c.i(0);
  if (!c.pointers(3)) return GOLEM_E_NULL;
  if (!sizes_fit(n)) return GOLEM_E_SHAPE;
  c.share(c.rows, 1.2 * static_cast<double>(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++)
      kernels().layer_norm(c.out<float>(0) + r * n, c.in<float>(1) + r * n, c.in<float>(2), c.in<float>(3), n, c.f(0));
  });
  return GOLEM_OK;
}

int run_gate(const Command &c) {
  const int64_t n = c.i(0), act = c.i(1);
  if (!c.pointers(2)) return GOLEM_E_NULL;
  if (act < GOLEM_GATE_SILU || act > GOLEM_GATE_GELU_TANH_F32) return GOLEM_E_TYPE;
  if (!sizes_fit(n)) return GOLEM_E_SHAPE;
  const Kernels &table = kernels();
  const auto fn = act == GOLEM_GATE_SILU        ? table.gate_silu
                  : act == GOLEM_GATE_GELU_TANH ? table.gate_gelu
                  : act == GOLEM_GATE_SIGMOID   ? table.gate_sigmoid
                  : act == GOLEM_GATE_GELU_ERF  ? table.gate_gelu_erf
                  : act == GOLEM_GATE_RELU      ? table.gate_relu
                  : act == GOLEM_GATE_ELU       ? table.gate_elu
                                                : table.gate_gelu_tanh;
  const float *up = c.in<float>(2);
  c.share(c.rows, 1.0 * static_cast<double>(n), [&](int64_t begin, int64_t end) {
    fn(c.out<float>(0) + begin * n, c.in<float>(1) + begin * n, up == nullptr ? nullptr : up + begin * n, (end - begin) * n);
  });
  return GOLEM_OK;
}

// The libm functions are not the instruction set's: a row has few of these.
int run_decay(const Command &c) {
  const int64_t n = c.i(0);
  if (!c.pointers(4)) return GOLEM_E_NULL;
  if (!sizes_fit(n)) return GOLEM_E_SHAPE;
  const float *rate = c.in<float>(2), *bias = c.in<float>(3);
  c.share(c.rows, 30.0 * static_cast<double>(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++)
      for (int64_t i = 0; i < n; i++) {
        const float x = c.in<float>(1)[r * n + i] + bias[i];
        c.out<float>(0)[r * n + i] = expf(rate[i] * (x > 20.0f ? x : log1pf(expf(x))));
      }
  });
  return GOLEM_OK;
}

int run_hadamard(const Command &c) {
  const int64_t n = c.i(0), block = c.i(1), after = c.i(2), first = c.i(3), second = c.i(4);
  if (!c.pointers(2)) return GOLEM_E_NULL;
  if (!sizes_fit(n, block, first, second) || block > kMaxHadamard || (block & (block - 1)) != 0 || n % block != 0 ||
      first > n || second > n / first || n % (first * second) != 0 || after < 0 || after > 1)
    return GOLEM_E_SHAPE;
  const int64_t blocks = n / block, size = n / (first * second);
  const float *signs = c.in<float>(2), by = 1.0f / sqrtf(static_cast<float>(block));
  c.share(c.rows * blocks, static_cast<double>(block), [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; item++) {
      const int64_t at = item % blocks * block;
      const float *x = c.in<float>(1) + item / blocks * n;
      float *out = c.out<float>(0) + item * block;
      for (int64_t i = 0; i < block;) {  // a head, or what of it lies in the block
        const int64_t head = (at + i) / size, part = (at + i) % size;
        const int64_t count = size - part < block - i ? size - part : block - i;
        const float *from = x + (head % first * second + head / first) * size + part;
        memcpy(out + i, from, static_cast<size_t>(count) * sizeof(float));
        i += count;
      }
      if (signs != nullptr && after == 0) kernels().mul(out, out, signs + at, block);
      kernels().hadamard(out, block, by);
      if (signs != nullptr && after == 1) kernels().mul(out, out, signs + at, block);
    }
  });
  return GOLEM_OK;
}

int run_add(const Command &c) { return binary(c, kernels().add); }

int run_mul(const Command &c) { return binary(c, kernels().mul); }

int run_scale(const Command &c) {
  return unary(c, 0.25, [&](float *out, const float *x, int64_t n) { kernels().scale(out, x, c.f(0), n); });
}

int run_softcap(const Command &c) {
  if (!(c.f(0) > 0)) return GOLEM_E_SHAPE;
  return unary(c, 2.0, [&](float *out, const float *x, int64_t n) { kernels().softcap(out, x, c.f(0), n); });
}

int run_temperature(const Command &c) {
  const int64_t n = c.i(0), period = c.i(1);
  if (!c.pointers(3)) return GOLEM_E_NULL;
  if (!sizes_fit(n) || period <= 0 || period >= int64_t{1} << 31) return GOLEM_E_SHAPE;
  const int32_t *positions = c.in<int32_t>(2);
  for (int64_t r = 0; r < c.rows; r++)
    if (positions[r] < 0) return GOLEM_E_POSITION;
  c.share(c.rows, 0.25 * static_cast<double>(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      const double turns = static_cast<double>(positions[r] / period + 1);
      const float factor = static_cast<float>(1.0 + static_cast<double>(c.f(0)) * std::log(turns));
      kernels().scale(c.out<float>(0) + r * n, c.in<float>(1) + r * n, factor, n);
    }
  });
  return GOLEM_OK;
}

}  // namespace golem
