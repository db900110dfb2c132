// The weight types this library reads: block sizes, and the activation kind each is multiplied with.
#pragma once
#include <cstdint>

namespace golem {

// Numbers of ggml types in GGUF files.
enum Type : int {
  F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q2_K = 10, Q3_K = 11, Q4_K = 12, Q5_K = 13, Q6_K = 14,
  IQ4_NL = 20, IQ4_XS = 23, BF16 = 30, TQ1_0 = 34, TQ2_0 = 35, MXFP4 = 39, Q1_0 = 41, Q2_0 = 42,
  PQ2_0 = 142, PTQ1_0 = 143,  // PrismML's
};
constexpr int kTypes = 144;

struct BlockInfo {
  int64_t n;      // values in a block; 0 for an unsupported type
  int64_t bytes;  // bytes of a block
  int act;        // golem_act of the activations it is multiplied with
};

BlockInfo block_info(int64_t type);

// Values of the 16 codes of IQ4_NL and IQ4_XS.
alignas(16) constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// Twice the values of the 16 codes of MXFP4 (E2M1: sign, two bits of exponent, one of mantissa).
alignas(16) constexpr int8_t kFp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace golem
