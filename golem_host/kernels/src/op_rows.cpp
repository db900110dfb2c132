// Commands that move rows: table look-up, selection, copy.
#include <cstring>

#include "command.h"
#include "decode.h"

namespace golem {
namespace {

bool all_below(const int32_t *index, int64_t n, int64_t limit) {
  for (int64_t r = 0; r < n; r++)
    if (index[r] < 0 || index[r] >= limit) return false;
  return true;
}

constexpr double kNsPerValue = 0.25;  // of a copied float

}  // namespace

int run_rows(const Command &c) {
  const int64_t n = c.i(0), type = c.i(1), stride = c.i(2), table_rows = c.i(3);
  const BlockInfo info = block_info(type);
  if (!c.pointers(3)) return GOLEM_E_NULL;
  if (info.n == 0) return GOLEM_E_TYPE;
  if (!sizes_fit(n, stride, table_rows) || n % info.n != 0 || stride < n / info.n * info.bytes) return GOLEM_E_SHAPE;
  const int32_t *ids = c.in<int32_t>(1);
  if (!all_below(ids, c.rows, table_rows)) return GOLEM_E_ID;
  c.share(c.rows, 4 * kNsPerValue * static_cast<double>(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++)
      dequantize_row(type, c.in<uint8_t>(2) + ids[r] * stride, n, c.out<float>(0) + r * n);
  });
  return GOLEM_OK;
}

int run_select(const Command &c) {
  const int64_t n = c.i(0), axis = c.i(1);
  if (!c.pointers(3) || (axis >= 0 && c.live == nullptr)) return GOLEM_E_NULL;
  if (!sizes_fit(n)) return GOLEM_E_SHAPE;
  const int64_t source_rows = axis >= 0 ? c.live[axis] : c.i(2);
  const int32_t *index = c.in<int32_t>(2);
  if (!all_below(index, c.rows, source_rows)) return GOLEM_E_INDEX;
  c.share(c.rows, kNsPerValue * static_cast<double>(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++)
      memcpy(c.out<float>(0) + r * n, c.in<float>(1) + index[r] * n, static_cast<size_t>(n) * 4);
  });
  return GOLEM_OK;
}

int run_copy(const Command &c) {
  const int64_t n = c.i(0), groups = c.i(1) == 0 ? 1 : c.i(1), width = c.i(2) == 0 ? n : c.i(2), first = c.i(3);
  if (!c.pointers(2)) return GOLEM_E_NULL;
  if (!sizes_fit(n, groups, width) || first < 0 || n > width || first > width - n) return GOLEM_E_SHAPE;
  c.share(c.rows * groups, kNsPerValue * static_cast<double>(n), [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; g++)
      memcpy(c.out<float>(0) + g * n, c.in<float>(1) + g * width + first, static_cast<size_t>(n) * 4);
  });
  return GOLEM_OK;
}

}  // namespace golem
