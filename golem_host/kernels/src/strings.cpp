// Walking the strings of a GGUF array.
#include <cstring>

#include "golem_kernels.h"

int golem_walk_strings(const uint8_t *buf, int64_t size, int64_t at, int64_t count, int64_t *offsets) {
  if (buf == nullptr || offsets == nullptr) return GOLEM_E_NULL;
  if (size < 0 || at < 0 || count < 0 || at > size) return GOLEM_E_STRINGS;
  for (int64_t j = 0; j < count; j++) {
    offsets[j] = at;
    uint64_t length;
    if (size - at < 8) return GOLEM_E_STRINGS;
    memcpy(&length, buf + at, 8);
    if (length > static_cast<uint64_t>(size - at - 8)) return GOLEM_E_STRINGS;
    at += 8 + static_cast<int64_t>(length);
  }
  offsets[count] = at;
  return GOLEM_OK;
}
