// Products and the quantizing of their inputs.
#include "activation.h"
#include "command.h"

namespace golem {

double product_ns(int64_t bytes, int64_t k, int64_t columns) {
  constexpr double kPerByte = 0.06, kPerProduct = 0.02;  // a byte is read once
  return kPerByte * static_cast<double>(bytes) + kPerProduct * static_cast<double>(k * columns);
}

int run_act(const Command &c) {
  const int64_t n = c.i(0), inner = c.i(2) == 0 ? 1 : c.i(2);
  const int kind = static_cast<int>(c.i(1));
  if (!c.pointers(2)) return GOLEM_E_NULL;
  if (c.i(1) != kind || act_block(kind) == 0) return GOLEM_E_TYPE;
  const int64_t bytes = golem_act_bytes(kind, n);
  if (!sizes_fit(n, inner) || bytes == 0) return GOLEM_E_SHAPE;
  c.share(c.rows * inner, 0.5 * static_cast<double>(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) kernels().quantize(kind, c.in<float>(1) + r * n, n, c.out<uint8_t>(0) + r * bytes);
  });
  return GOLEM_OK;
}

int run_matmul(const Command &c) {
  const int64_t m = c.i(0), k = c.i(1), type = c.i(2);
  const BlockInfo info = block_info(type);
  if (!c.pointers(3)) return GOLEM_E_NULL;
  if (info.n == 0) return GOLEM_E_TYPE;
  const int64_t x_bytes = golem_act_bytes(info.act, k);
  if (!sizes_fit(m, k) || k % info.n != 0 || x_bytes == 0) return GOLEM_E_SHAPE;
  Product product;
  product.w = c.in<uint8_t>(2);
  product.w_stride = k / info.n * info.bytes;
  product.x = c.in<uint8_t>(1);
  product.x_stride = x_bytes;
  product.bias = c.in<float>(3);
  product.out = c.out<float>(0);
  product.rows = c.rows;
  product.m = m;
  product.k = k;
  const double cost = product_ns(product.w_stride, k, c.rows);
  const ProductFn fn = kernels().product[type];
  c.share(m, cost, [&](int64_t begin, int64_t end) { fn(product, begin, end); }, kernels().product_rows[type]);
  return GOLEM_OK;
}

}  // namespace golem
