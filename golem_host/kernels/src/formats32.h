// Unpacking blocks of 32 into lanes (see lanes.h). Every format has
//   kValues, kBytes   bytes of a block; kLoneAt, kLoneBytes: those that are no dword (block_source.h)
//   kBits    bits of an unsigned weight, or 8 for a signed one
//   kBias    what is to be subtracted from every unpacked weight
//   kOffset  whether values have an offset m (q * d + m)
//   unpack(block, q[8], d, m)
#pragma once
#include "block_source.h"
#include "blocks.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {

GOLEM_INLINE vi low_nibbles(vi packed) { return and_int(packed, set_int(0x0f0f0f0f)); }
GOLEM_INLINE vi high_nibbles(vi packed) { return low_nibbles(shift_right<4>(packed)); }

template <class B>
GOLEM_INLINE void unpack_nibbles(const B &block, int at, vi *q) {
  vi packed[4];
  block.dwords4(at, packed);
  for (int j = 0; j < 4; j++) {
    q[j] = low_nibbles(packed[j]);
    q[j + 4] = high_nibbles(packed[j]);
  }
}

GOLEM_INLINE void add_fifth_bits(vi bits, vi *q) {
  q[0] = or_int(q[0], value_where<0, 16>(bits));
  q[1] = or_int(q[1], value_where<4, 16>(bits));
  q[2] = or_int(q[2], value_where<8, 16>(bits));
  q[3] = or_int(q[3], value_where<12, 16>(bits));
  q[4] = or_int(q[4], value_where<16, 16>(bits));
  q[5] = or_int(q[5], value_where<20, 16>(bits));
  q[6] = or_int(q[6], value_where<24, 16>(bits));
  q[7] = or_int(q[7], value_where<28, 16>(bits));
}

struct FormatQ4_0 {
  static constexpr int kValues = 32, kBytes = 18, kLoneAt = 0, kLoneBytes = 2, kBits = 4, kBias = 8;
  static constexpr bool kOffset = false;
  template <class B>
  GOLEM_INLINE void unpack(const B &block, vi *q, vf &d, vf &) {
    d = block.lone_half();
    unpack_nibbles(block, 2, q);
  }
};

struct FormatQ4_1 {
  static constexpr int kValues = 32, kBytes = 20, kLoneAt = 0, kLoneBytes = 0, kBits = 4, kBias = 0;
  static constexpr bool kOffset = true;
  template <class B>
  GOLEM_INLINE void unpack(const B &block, vi *q, vf &d, vf &m) {
    const vi dm = block.dword(0);
    d = half_low(dm);
    m = half_high(dm);
    unpack_nibbles(block, 4, q);
  }
};

struct FormatQ5_0 {
  static constexpr int kValues = 32, kBytes = 22, kLoneAt = 0, kLoneBytes = 2, kBits = 5, kBias = 16;
  static constexpr bool kOffset = false;
  template <class B>
  GOLEM_INLINE void unpack(const B &block, vi *q, vf &d, vf &) {
    d = block.lone_half();
    unpack_nibbles(block, 6, q);
    add_fifth_bits(block.dword(2), q);
  }
};

struct FormatQ5_1 {
  static constexpr int kValues = 32, kBytes = 24, kLoneAt = 0, kLoneBytes = 0, kBits = 5, kBias = 0;
  static constexpr bool kOffset = true;
  template <class B>
  GOLEM_INLINE void unpack(const B &block, vi *q, vf &d, vf &m) {
    const vi dm = block.dword(0);
    d = half_low(dm);
    m = half_high(dm);
    unpack_nibbles(block, 8, q);
    add_fifth_bits(block.dword(4), q);
  }
};

// Values of kFp4Values plus kBias: without a sign they are cheaper to multiply with.
alignas(16) constexpr int8_t kFp4Raised[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

// Signed bytes as the dot products want them.
GOLEM_INLINE vi signed_bytes(vi q) { return kSignedBias == 0 ? q : xor_int(q, set_int(static_cast<int32_t>(0x80808080u))); }

struct FormatQ8_0 {
  static constexpr int kValues = 32, kBytes = 34, kLoneAt = 0, kLoneBytes = 2, kBits = 8, kBias = kSignedBias;
  static constexpr bool kOffset = false;
  template <class B>
  GOLEM_INLINE void unpack(const B &block, vi *q, vf &d, vf &) {
    d = block.lone_half();
    block.dwords4(2, q);
    block.dwords4(18, q + 4);
    for (int j = 0; j < 8; j++) q[j] = signed_bytes(q[j]);
  }
};

struct FormatIQ4_NL {
  static constexpr int kValues = 32, kBytes = 18, kLoneAt = 0, kLoneBytes = 2, kBits = 8, kBias = kSignedBias;
  static constexpr bool kOffset = false;
  template <class B>
  GOLEM_INLINE void unpack(const B &block, vi *q, vf &d, vf &) {
    d = block.lone_half();
    unpack_nibbles(block, 2, q);
    const vi table = lane_table(kIq4Values);
    for (int j = 0; j < 8; j++) q[j] = signed_bytes(table_values(table, q[j]));
  }
};

// Half of 2^(e - 127), because the table's values are doubled; of the two that are denormal (e + 1) << 21 are the bits.
GOLEM_INLINE vf half_of_exponent(vi e) {
  const vi one = set_int(1);
  return as_float(max_int(shift_left<23>(sub_int(e, one)), shift_left<21>(add_int(e, one))));
}

struct FormatMXFP4 {
  static constexpr int kValues = 32, kBytes = 17, kLoneAt = 0, kLoneBytes = 1, kBits = 5, kBias = 12;
  static constexpr bool kOffset = false;
  template <class B>
  GOLEM_INLINE void unpack(const B &block, vi *q, vf &d, vf &) {
    d = half_of_exponent(block.lone_byte());
    unpack_nibbles(block, 1, q);
    const vi table = lane_table(kFp4Raised);
    for (int j = 0; j < 8; j++) q[j] = table_values(table, q[j]);
  }
};

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
