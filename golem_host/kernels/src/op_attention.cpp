// Slot caches: writing keys and values, attending over them.
#include <atomic>

#include "command.h"
#include "scratch.h"

namespace golem {
namespace {

int check_slots(const int32_t *slot, const int32_t *position, int64_t rows, int64_t slots) {
  for (int64_t r = 0; r < rows; r++) {
    if (slot[r] < 0 || slot[r] >= slots) return GOLEM_E_SLOT;
    if (position[r] < 0) return GOLEM_E_POSITION;
  }
  return GOLEM_OK;
}

// Positions that a query attends.
int64_t reach(int64_t position, int64_t window) { return window > 0 && window <= position ? window : position + 1; }

}  // namespace

int run_store(const Command &c) {
  const int64_t kv_heads = c.i(0), hd = c.i(1), vd = c.i(2), ring = c.i(3), slots = c.i(4);
  if (!c.pointers(6)) return GOLEM_E_NULL;
  if (!sizes_fit(kv_heads, hd, vd, ring, slots)) return GOLEM_E_SHAPE;
  const int32_t *slot = c.in<int32_t>(4), *position = c.in<int32_t>(5);
  const int error = check_slots(slot, position, c.rows, slots);
  if (error != GOLEM_OK) return error;
  c.share(c.rows, 0.5 * static_cast<double>(kv_heads * (hd + vd)), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      for (int64_t h = 0; h < kv_heads; h++) {
        const int64_t cell = (slot[r] * kv_heads + h) * ring + position[r] % ring;
        kernels().store_half(c.out<uint16_t>(0) + cell * hd, c.in<float>(2) + (r * kv_heads + h) * hd, hd);
        kernels().store_half(c.out<uint16_t>(1) + cell * vd, c.in<float>(3) + (r * kv_heads + h) * vd, vd);
      }
    }
  });
  return GOLEM_OK;
}

int run_attn(const Command &c) {
  const int64_t heads = c.i(0), kv_heads = c.i(1), hd = c.i(2), vd = c.i(3), ring = c.i(4), slots = c.i(5), window = c.i(6);
  if (!c.pointers(6)) return GOLEM_E_NULL;
  if (!sizes_fit(heads, kv_heads, hd, vd, ring, slots) || heads % kv_heads != 0 || hd > kMaxHeadDim || vd > kMaxHeadDim || window < 0)
    return GOLEM_E_SHAPE;
  const int32_t *slot = c.in<int32_t>(4), *position = c.in<int32_t>(5);
  const int error = check_slots(slot, position, c.rows, slots);
  if (error != GOLEM_OK) return error;
  int64_t keys = 0, most = 0;
  for (int64_t r = 0; r < c.rows; r++) {
    const int64_t attended = reach(position[r], window);
    if (attended > ring) return GOLEM_E_POSITION;
    keys += attended;
    if (attended > most) most = attended;
  }
  const Attention attention{{c.in<uint16_t>(2), c.in<uint16_t>(3), kv_heads, ring, hd, vd}, c.in<float>(1), c.out<float>(0),
                            heads, window, c.f(0), c.f(1)};
  const double cost = 0.15 * static_cast<double>(keys / c.rows * (hd + vd) * (heads / kv_heads));
  std::atomic<bool> short_of_memory{false};
  c.share(c.rows * kv_heads, cost, [&](int64_t begin, int64_t end) {
    thread_local Scratch<float> scratch;
    float *weights = scratch.of(kMaxHeadsTogether * attention_stride(most));
    if (weights == nullptr) {
      short_of_memory = true;
      return;
    }
    for (int64_t item = begin; item < end; item++) {
      const int64_t r = item / kv_heads;
      kernels().attend(attention, r, item % kv_heads, slot[r], position[r], weights);
    }
  });
  return short_of_memory ? GOLEM_E_MEMORY : GOLEM_OK;
}

}  // namespace golem
