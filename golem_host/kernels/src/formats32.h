// Unpacking blocks of 32 into lanes (see lanes.h). Every format has
//   kBytes   bytes of a block
//   kBits    bits of an unsigned weight, or 8 for a signed one
//   kBias    what is to be subtracted from every unpacked weight
//   kOffset  whether values have an offset m (q * d + m)
//   unpack(block, stride, q[8], d, m)
#pragma once
#include "blocks.h"
#include "lanes.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {

GOLEM_INLINE vi low_nibbles(vi packed) { return and_int(packed, set_int(0x0f0f0f0f)); }
GOLEM_INLINE vi high_nibbles(vi packed) { return low_nibbles(shift_right<4>(packed)); }

GOLEM_INLINE void unpack_nibbles(const uint8_t *qs, int64_t stride, vi *q) {
  vi packed[4];
  load_4_dwords(qs, stride, packed);
  for (int j = 0; j < 4; j++) {
    q[j] = low_nibbles(packed[j]);
    q[j + 4] = high_nibbles(packed[j]);
  }
}

GOLEM_INLINE void add_fifth_bits(vi bits, vi *q) {
  q[0] = or_int(q[0], sixteen_where<0>(bits));
  q[1] = or_int(q[1], sixteen_where<4>(bits));
  q[2] = or_int(q[2], sixteen_where<8>(bits));
  q[3] = or_int(q[3], sixteen_where<12>(bits));
  q[4] = or_int(q[4], sixteen_where<16>(bits));
  q[5] = or_int(q[5], sixteen_where<20>(bits));
  q[6] = or_int(q[6], sixteen_where<24>(bits));
  q[7] = or_int(q[7], sixteen_where<28>(bits));
}

struct FormatQ4_0 {
  static constexpr int kBytes = 18, kBits = 4, kBias = 8;
  static constexpr bool kOffset = false;
  GOLEM_INLINE void unpack(const uint8_t *block, int64_t stride, vi *q, vf &d, vf &) {
    d = half_low(load_dword(block, stride));
    unpack_nibbles(block + 2, stride, q);
  }
};

struct FormatQ4_1 {
  static constexpr int kBytes = 20, kBits = 4, kBias = 0;
  static constexpr bool kOffset = true;
  GOLEM_INLINE void unpack(const uint8_t *block, int64_t stride, vi *q, vf &d, vf &m) {
    const vi dm = load_dword(block, stride);
    d = half_low(dm);
    m = half_high(dm);
    unpack_nibbles(block + 4, stride, q);
  }
};

struct FormatQ5_0 {
  static constexpr int kBytes = 22, kBits = 5, kBias = 16;
  static constexpr bool kOffset = false;
  GOLEM_INLINE void unpack(const uint8_t *block, int64_t stride, vi *q, vf &d, vf &) {
    d = half_low(load_dword(block, stride));
    unpack_nibbles(block + 6, stride, q);
    add_fifth_bits(load_dword(block + 2, stride), q);
  }
};

struct FormatQ5_1 {
  static constexpr int kBytes = 24, kBits = 5, kBias = 0;
  static constexpr bool kOffset = true;
  GOLEM_INLINE void unpack(const uint8_t *block, int64_t stride, vi *q, vf &d, vf &m) {
    const vi dm = load_dword(block, stride);
    d = half_low(dm);
    m = half_high(dm);
    unpack_nibbles(block + 8, stride, q);
    add_fifth_bits(load_dword(block + 4, stride), q);
  }
};

// Signed bytes as the dot products want them.
GOLEM_INLINE vi signed_bytes(vi q) { return kSignedBias == 0 ? q : xor_int(q, set_int(static_cast<int32_t>(0x80808080u))); }

struct FormatQ8_0 {
  static constexpr int kBytes = 34, kBits = 8, kBias = kSignedBias;
  static constexpr bool kOffset = false;
  GOLEM_INLINE void unpack(const uint8_t *block, int64_t stride, vi *q, vf &d, vf &) {
    d = half_low(load_dword(block, stride));
    load_4_dwords(block + 2, stride, q);
    load_4_dwords(block + 18, stride, q + 4);
    for (int j = 0; j < 8; j++) q[j] = signed_bytes(q[j]);
  }
};

struct FormatIQ4_NL {
  static constexpr int kBytes = 18, kBits = 8, kBias = kSignedBias;
  static constexpr bool kOffset = false;
  GOLEM_INLINE void unpack(const uint8_t *block, int64_t stride, vi *q, vf &d, vf &) {
    d = half_low(load_dword(block, stride));
    unpack_nibbles(block + 2, stride, q);
    const vi table = lane_table(kIq4Values);
    for (int j = 0; j < 8; j++) q[j] = signed_bytes(table_values(table, q[j]));
  }
};

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
