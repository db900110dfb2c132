// Whether a command's slot cache makes sense, and its rows lie in it.
#pragma once
#include <cstdint>

#include "command.h"

namespace golem {

static inline int check_cache(const Cache &cache, int64_t slots) {
  if (cache.type != kCacheF16 && cache.type != kCacheF32 && cache.type != kCacheQ8_0) return GOLEM_E_TYPE;
  if (!sizes_fit(cache.kv_heads, cache.ring, cache.hd, cache.vd, slots)) return GOLEM_E_SHAPE;
  if (cache.hd > kMaxHeadDim || cache.vd > kMaxHeadDim) return GOLEM_E_SHAPE;
  if (cache.type == kCacheQ8_0 && (cache.hd % 32 != 0 || cache.vd % 32 != 0)) return GOLEM_E_SHAPE;
  return GOLEM_OK;
}

static inline int check_slots(const int32_t *slot, const int32_t *position, int64_t rows, int64_t slots) {
  for (int64_t r = 0; r < rows; r++) {
    if (slot[r] < 0 || slot[r] >= slots) return GOLEM_E_SLOT;
    if (position[r] < 0) return GOLEM_E_POSITION;
  }
  return GOLEM_OK;
}

}  // namespace golem
