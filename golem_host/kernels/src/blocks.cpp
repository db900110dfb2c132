#include "blocks.h"

#include "golem_kernels.h"

namespace golem {

BlockInfo block_info(int64_t type) {
  switch (type) {
    case F32: return {1, 4, GOLEM_ACT_F32};
    case F16: return {1, 2, GOLEM_ACT_F16};
    case BF16: return {1, 2, GOLEM_ACT_BF16};
    case Q4_0: return {32, 18, GOLEM_ACT_Q8_0};
    case Q4_1: return {32, 20, GOLEM_ACT_Q8_1};
    case Q5_0: return {32, 22, GOLEM_ACT_Q8_0};
    case Q5_1: return {32, 24, GOLEM_ACT_Q8_1};
    case Q8_0: return {32, 34, GOLEM_ACT_Q8_0};
    case IQ4_NL: return {32, 18, GOLEM_ACT_Q8_0};
    case MXFP4: return {32, 17, GOLEM_ACT_Q8_0};
    case Q1_0: return {128, 18, GOLEM_ACT_Q8_0};
    case Q2_0: return {64, 18, GOLEM_ACT_Q8_0};
    case PQ2_0: return {128, 34, GOLEM_ACT_Q8_0};
    case PTQ1_0: return {128, 28, GOLEM_ACT_Q8_0};
    case Q2_K: return {256, 84, GOLEM_ACT_Q8_K};
    case Q3_K: return {256, 110, GOLEM_ACT_Q8_K};
    case Q4_K: return {256, 144, GOLEM_ACT_Q8_K};
    case Q5_K: return {256, 176, GOLEM_ACT_Q8_K};
    case Q6_K: return {256, 210, GOLEM_ACT_Q8_K};
    case IQ4_XS: return {256, 136, GOLEM_ACT_Q8_K};
    case TQ1_0: return {256, 54, GOLEM_ACT_Q8_K};
    case TQ2_0: return {256, 66, GOLEM_ACT_Q8_K};
    default: return {0, 0, -1};
  }
}

}  // namespace golem
