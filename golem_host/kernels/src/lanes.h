// Integer vectors whose 32-bit lanes stand for kLanes consecutive weight rows. Blocks are read straight from the
// file's layout and transposed: vector j of an unpacked block holds, in lane r, inputs 4j .. 4j+3 of row r as bytes.
//
//   load_dword(p, stride)           lane r: the 4 bytes at p + r * stride
//   load_4_dwords(p, stride, out)   out[j], lane r: the 4 bytes at p + r * stride + 4j
//   load_lanes, load_bytes          kLanes consecutive dwords / bytes, one for each lane
//   load_signed_bytes               the same of signed bytes
//   choose_bits(mask, a, b)         the bits of a where the mask has ones, else those of b
//   half_low, half_high             the half in the low / high 16 bits of each lane as float
//   dot, dot_scaled                 sums of products with bytes of one activation row
//   kSignedBias                     what unpacked signed weights have been raised by
#pragma once

#if defined(GOLEM_ISA_AVX512)
#include "lanes_avx512.h"
#elif defined(GOLEM_ISA_AVX2)
#include "lanes_avx2.h"
#elif defined(GOLEM_ISA_NEON)
#include "lanes_neon.h"
#endif
