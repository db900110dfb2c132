// Products and the quantizing of their inputs.
#include <algorithm>
#include <cstring>

#include "activation.h"
#include "command.h"
#include "matmuls.h"
#include "scratch.h"

namespace golem {
namespace {

constexpr int64_t kManyRows = 8;       // of floats
constexpr int64_t kBlockRows = 120;   // that a thread takes where the outputs are too few for all threads
constexpr int64_t kManyBlock = 264;   // that it takes at a time where there are more rows than that
constexpr int64_t kTilesTogether = 4;  // of weights that some rows are multiplied with while they are in a near cache

}  // namespace

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
  const bool pairs = kind == GOLEM_ACT_BF16 && bytes == 2 * n;
  c.share(c.rows * inner, 0.5 * static_cast<double>(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      const float *x = c.in<float>(1) + r * n;
      uint8_t *out = c.out<uint8_t>(0) + r * bytes;
      if (pairs) kernels().pack_pairs(x, n, reinterpret_cast<uint16_t *>(out));
      else kernels().quantize(kind, x, n, out);
    }
  });
  return GOLEM_OK;
}

int Matmuls::add(const Command &c) {
  const int64_t m = c.i(0), k = c.i(1), type = c.i(2), laid = c.i(3), unrounded = c.i(5);
  const int64_t first = c.i(6), outputs = c.i(7) == 0 ? m : c.i(7);
  const BlockInfo info = block_info(type);
  if (!c.pointers(3)) return GOLEM_E_NULL;
  if (info.n == 0 || laid < 0 || laid > 1 || unrounded < 0 || unrounded > 1 || (unrounded == 1 && info.n != 1)) return GOLEM_E_TYPE;
  const int64_t x_bytes = golem_act_bytes(unrounded != 0 ? GOLEM_ACT_F32 : info.act, k);
  if (!sizes_fit(m, k) || k % info.n != 0 || x_bytes == 0) return GOLEM_E_SHAPE;
  if (first < 0 || outputs < 0 || first > m - outputs || first % kernels().product_rows[type] != 0) return GOLEM_E_SHAPE;
  Part &part = parts_[count_];
  Product &product = part.product;
  product.w = c.in<uint8_t>(2);
  product.w_stride = k / info.n * info.bytes;
  product.x = c.in<uint8_t>(1);
  product.x_stride = x_bytes;
  product.bias = c.in<float>(3);
  product.out = c.out<float>(0);
  product.rows = c.rows;
  product.m = m;
  product.k = k;
  part.begin = first;
  part.end = first + outputs;
  part.floats = info.n == 1;
  part.fn = unrounded != 0 ? kernels().unrounded[type] : kernels().product[type];
  part.align = kernels().product_rows[type] * (part.floats && c.rows > kManyRows && c.rows <= kManyBlock ? kTilesTogether : 1);
  if (laid != 0) {
    const Layout &layout = kernels().layout[type];
    if (layout.product == nullptr) return GOLEM_E_TYPE;
    part.fn = unrounded != 0 ? kernels().unrounded_laid[type] : layout.product;
    product.w_stride = layout.tile_bytes(k);
  }
  part.row_ns = product_ns(k / info.n * info.bytes, k, c.rows);
  count_++;
  return GOLEM_OK;
}

// Rows of floats a multiple of 4,096 bytes apart push each other out of the nearest cache where a product takes more of them
// at a time than that has places. They are copied to where they lie a little further apart; without memory for that they stay.
void Matmuls::spread_inputs() {
  constexpr int64_t kSameSets = 4096, kPlaces = 8, kFurther = 64;
  if (kernels().product_columns <= kPlaces) return;
  const auto wanted = [](const Part &part) {
    const Product &p = part.product;
    return part.floats && p.rows > kManyRows && p.x_stride % kSameSets == 0;
  };
  const Part *const first = std::find_if(parts_, parts_ + count_, wanted);
  if (first == parts_ + count_) return;
  const Product from = first->product;
  const int64_t stride = from.x_stride + kFurther;
  thread_local Scratch<uint8_t> scratch;
  uint8_t *const copy = scratch.of(from.rows * stride);
  if (copy == nullptr) return;
  const int64_t step = (from.rows + pool_.threads() - 1) / pool_.threads();
  pool_.run((from.rows + step - 1) / step, [&](int64_t chunk) {
    for (int64_t r = chunk * step; r < from.rows && r < (chunk + 1) * step; r++)
      std::memcpy(copy + r * stride, from.x + r * from.x_stride, static_cast<size_t>(from.x_stride));
  });
  for (int i = 0; i < count_; i++) {
    Product &p = parts_[i].product;
    if (p.x != from.x || p.x_stride != from.x_stride || p.rows != from.rows || !parts_[i].floats) continue;
    p.x = copy;
    p.x_stride = stride;
  }
}

void Matmuls::run() {
  spread_inputs();
  double total = 0;
  for (int i = 0; i < count_; i++) total += parts_[i].row_ns * static_cast<double>(parts_[i].end - parts_[i].begin);
  const double chunk_ns = Command::chunk_ns(total, pool_.threads());
  if (chunk_ns == 0) {
    for (int i = 0; i < count_; i++) parts_[i].fn(parts_[i].product, parts_[i].begin, parts_[i].end);
    return;
  }
  int64_t step[kMost], first[kMost + 1] = {0};  // of each part: outputs of a chunk, its first chunk
  int64_t blocks[kMost], rows[kMost];           // blocks of rows that are shared out too
  for (int i = 0; i < count_; i++) {
    const int64_t m = parts_[i].end - parts_[i].begin, align = parts_[i].align;
    step[i] = (static_cast<int64_t>(chunk_ns / parts_[i].row_ns) + align) / align * align;
    const int64_t chunks = (m + step[i] - 1) / step[i];
    rows[i] = !parts_[i].floats ? parts_[i].product.rows : chunks < 2 * pool_.threads() ? kBlockRows : kManyBlock;
    blocks[i] = (parts_[i].product.rows + rows[i] - 1) / rows[i];
    first[i + 1] = first[i] + chunks * blocks[i];
  }
  pool_.run(first[count_], [&](int64_t chunk) {
    int i = 0;
    while (chunk >= first[i + 1]) i++;
    const int64_t at = chunk - first[i], begin = parts_[i].begin + at / blocks[i] * step[i];
    Product part = parts_[i].product;
    if (blocks[i] > 1) {
      const int64_t row = at % blocks[i] * rows[i];
      part.x += row * part.x_stride;
      part.out += row * part.m;
      part.rows = std::min(rows[i], part.rows - row);
    }
    parts_[i].fn(part, begin, std::min(begin + step[i], parts_[i].end));
  });
}

int run_lay(const Command &c) {
  const int64_t k = c.i(0), type = c.i(1);
  const BlockInfo info = block_info(type);
  if (!c.pointers(2)) return GOLEM_E_NULL;
  if (info.n == 0 || kernels().layout[type].lay == nullptr) return GOLEM_E_TYPE;
  if (!sizes_fit(k) || k % info.n != 0) return GOLEM_E_SHAPE;
  const Layout &layout = kernels().layout[type];
  const int64_t height = kernels().product_rows[type], stride = k / info.n * info.bytes, bytes = layout.tile_bytes(k);
  const int64_t tiles = (c.rows + height - 1) / height;
  c.share(tiles, 0.3 * static_cast<double>(bytes), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) {
      const int64_t row = t * height, rest = c.rows - row;
      layout.lay(c.in<uint8_t>(1) + row * stride, stride, rest < height ? rest : height, k, c.out<uint8_t>(0) + t * bytes);
    }
  });
  return GOLEM_OK;
}

}  // namespace golem

int64_t golem_tile_rows(int ggml_type) {
  if (golem::block_info(ggml_type).n == 0 || golem::kernels().layout[ggml_type].lay == nullptr) return 0;
  return golem::kernels().product_rows[ggml_type];
}

int64_t golem_laid_bytes(int ggml_type, int64_t m, int64_t k) {
  const golem::BlockInfo info = golem::block_info(ggml_type);
  if (info.n == 0 || !golem::sizes_fit(m, k) || k % info.n != 0) return 0;
  const golem::Layout &layout = golem::kernels().layout[ggml_type];
  if (layout.lay == nullptr) return 0;
  const int64_t height = golem::kernels().product_rows[ggml_type];
  return (m + height - 1) / height * layout.tile_bytes(k);
}
