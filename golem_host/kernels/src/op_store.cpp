// Writing keys and values into the slot caches; attention.h says how they lie there.
#include <cstring>

#include "activation.h"
#include "command.h"
#include "half.h"
#include "slots.h"

namespace golem {
namespace {

// What one head's key or value of one row becomes before it is laid out.
struct Rounded {
  uint16_t halves[kMaxHeadDim];
  uint8_t quantized[kMaxHeadDim + kMaxHeadDim / 4];  // an activation row of Q8_0

  const int8_t *codes() const { return codes_at(quantized, 0); }
  uint16_t scale(int64_t n, int64_t block) const { return float_to_half(float_at(quantized, act32_d_at(n, block))); }
};

void store_key_f16(uint8_t *block, int64_t lane, const float *k, int64_t hd, Rounded &r) {
  kernels().store_half(r.halves, k, hd);
  uint16_t *out = reinterpret_cast<uint16_t *>(block) + lane;
  for (int64_t i = 0; i < hd; i++) out[i * kBlockCells] = r.halves[i];
}

void store_key_f32(uint8_t *block, int64_t lane, const float *k, int64_t hd) {
  float *out = reinterpret_cast<float *>(block) + lane;
  for (int64_t i = 0; i < hd; i++) out[i * kBlockCells] = k[i];
}

void store_key_q8_0(uint8_t *block, int64_t lane, const float *k, int64_t hd, Rounded &r) {
  kernels().quantize(GOLEM_ACT_Q8_0, k, hd, r.quantized);
  for (int64_t i = 0; i < hd; i += 4) memcpy(block + (i / 4 * kBlockCells + lane) * 4, r.codes() + i, 4);
  uint16_t *scales = reinterpret_cast<uint16_t *>(block + kBlockCells * hd) + lane;
  for (int64_t b = 0; b < hd / 32; b++) scales[b * kBlockCells] = r.scale(hd, b);
}

void store_value_q8_0(uint8_t *value, const float *v, int64_t vd, Rounded &r) {
  kernels().quantize(GOLEM_ACT_Q8_0, v, vd, r.quantized);
  memcpy(value, r.codes(), static_cast<size_t>(vd));
  uint16_t *scales = reinterpret_cast<uint16_t *>(value + vd);
  for (int64_t b = 0; b < vd / 32; b++) scales[b] = r.scale(vd, b);
}

}  // namespace

int run_store(const Command &c) {
  if (!c.pointers(6)) return GOLEM_E_NULL;
  const Cache cache{c.in<uint8_t>(0), c.in<uint8_t>(1), c.i(5), c.i(0), c.i(3), c.i(1), c.i(2)};
  const int32_t *slot = c.in<int32_t>(4), *position = c.in<int32_t>(5);
  int error = check_cache(cache, c.i(4));
  if (error == GOLEM_OK) error = check_slots(slot, position, c.rows, c.i(4));
  if (error != GOLEM_OK) return error;
  const int64_t kv_heads = cache.kv_heads, hd = cache.hd, vd = cache.vd;
  c.share(c.rows, 0.5 * static_cast<double>(kv_heads * (hd + vd)), [&](int64_t begin, int64_t end) {
    Rounded rounded;
    for (int64_t r = begin; r < end; r++) {
      const int64_t cell = position[r] % cache.ring, lane = cell % kBlockCells;
      for (int64_t h = 0; h < kv_heads; h++) {
        const float *k = c.in<float>(2) + (r * kv_heads + h) * hd, *v = c.in<float>(3) + (r * kv_heads + h) * vd;
        uint8_t *block = const_cast<uint8_t *>(keys_of(cache, slot[r], h)) + (cell - lane) * row_bytes(cache.type, hd);
        uint8_t *value = const_cast<uint8_t *>(values_of(cache, slot[r], h)) + cell * row_bytes(cache.type, vd);
        if (cache.type == kCacheF16) {
          store_key_f16(block, lane, k, hd, rounded);
          kernels().store_half(reinterpret_cast<uint16_t *>(value), v, vd);
        } else if (cache.type == kCacheF32) {
          store_key_f32(block, lane, k, hd);
          memcpy(value, v, static_cast<size_t>(vd) * sizeof(float));
        } else {
          store_key_q8_0(block, lane, k, hd, rounded);
          store_value_q8_0(value, v, vd, rounded);
        }
      }
    }
  });
  return GOLEM_OK;
}

}  // namespace golem
