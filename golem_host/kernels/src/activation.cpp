#include "activation.h"

#include "blocks.h"
#include "golem_kernels.h"
#include "kernels.h"

namespace golem {

int64_t act_block(int kind) {
  switch (kind) {
    case GOLEM_ACT_F32:
    case GOLEM_ACT_F16:
    case GOLEM_ACT_BF16: return 1;
    case GOLEM_ACT_Q8_0:
    case GOLEM_ACT_Q8_1: return 32;
    case GOLEM_ACT_Q8_K: return 256;
    default: return 0;
  }
}

}  // namespace golem

int golem_act_kind(int ggml_type) { return golem::block_info(ggml_type).act; }

int64_t golem_act_bytes(int kind, int64_t n) {
  const int64_t block = golem::act_block(kind);
  if (block == 0 || n <= 0 || n > INT64_MAX / 8 || n % block != 0) return 0;
  if (kind == GOLEM_ACT_BF16 && n % 2 == 0 && golem::kernels().pack_pairs != nullptr) return n * 2;
  if (block == 1) return n * 4;
  if (block == 32) return n + n / 32 * 8;
  return n + n / 256 * 4 + n / 16 * 2 + n / 32 * 2;
}
