// GELU (tanh form) of every float16, as ggml tabulates it: entry[bits of x] = bits of gelu(x).
#pragma once
#include <cstdint>

namespace golem {

const uint16_t *gelu_table();  // 65536 entries, made when first asked for

}  // namespace golem
