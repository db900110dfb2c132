// Unpacking blocks that are one scale times a few whole numbers: bits, two-bit codes and trits (see lanes.h). A block is
// read in kGroups groups whose bytes unpack into kParts parts of 32 consecutive inputs. Every format has
//   kValues, kBytes   bytes of a block; kLoneAt, kLoneBytes: those that are no dword (block_source.h)
//   kBias             what is to be subtracted from every weight, 0 .. 3
//   kTrits            whether parts are bytes whose first trit is the weight (first_trit), else they are weights
//   scale(block)      d
//   load(block, group)        the bytes of a group: what parts are taken from
//   part<p, B>(bytes, q)      q[8], its part p; parts are taken in ascending order, each once
#pragma once
#include "block_source.h"
#include "blocks.h"
#include "lanes.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {

// Exchanges bits a and b of every bit's place in x, a > b.
template <int a, int b>
GOLEM_INLINE uint32_t exchange_places(uint32_t x) {
  constexpr int distance = (1 << a) - (1 << b);
  uint32_t lower = 0;
  for (int i = 0; i < 32; i++) lower |= static_cast<uint32_t>((i >> b & 1) && !(i >> a & 1)) << i;
  const uint32_t differ = (x >> distance ^ x) & lower;
  return x ^ differ ^ differ << distance;
}

template <int kBits>
GOLEM_INLINE vi low_bits(vi a) { return and_int(a, set_int(((1 << kBits) - 1) * 0x01010101)); }

// Bits as 0 or 2, less 1.
struct FormatQ1_0 {
  static constexpr int kValues = 128, kBytes = 18, kLoneAt = 0, kLoneBytes = 2, kBias = 1, kGroups = 1, kParts = 4;
  static constexpr bool kTrits = false;
  struct Bytes {
    vi bits[4];
  };
  template <class B>
  GOLEM_INLINE vf scale(const B &block) { return block.lone_half(); }
  template <class B>
  GOLEM_INLINE Bytes load(const B &block, int) {
    Bytes bytes;
    block.dwords4(2, bytes.bits);
    return bytes;
  }
  // Re-laid: bit j of byte i is that of input 4 j + i.
  GOLEM_INLINE uint32_t laid(uint32_t dword) {
    return exchange_places<1, 0>(exchange_places<2, 1>(exchange_places<3, 0>(exchange_places<4, 1>(dword))));
  }
  template <int p, class B>
  GOLEM_INLINE void part(const Bytes &bytes, vi *q) {
    const vi bits = bytes.bits[p], two = set_int(0x02020202);
    if constexpr (B::kLaid) {
      q[0] = and_int(shift_left<1>(bits), two);
      q[1] = and_int(bits, two);
      q[2] = and_int(shift_right<1>(bits), two);
      q[3] = and_int(shift_right<2>(bits), two);
      q[4] = and_int(shift_right<3>(bits), two);
      q[5] = and_int(shift_right<4>(bits), two);
      q[6] = and_int(shift_right<5>(bits), two);
      q[7] = and_int(shift_right<6>(bits), two);
    } else {
      q[0] = value_where<0, 2>(bits);
      q[1] = value_where<4, 2>(bits);
      q[2] = value_where<8, 2>(bits);
      q[3] = value_where<12, 2>(bits);
      q[4] = value_where<16, 2>(bits);
      q[5] = value_where<20, 2>(bits);
      q[6] = value_where<24, 2>(bits);
      q[7] = value_where<28, 2>(bits);
    }
  }
};

// Q2_0 has 64 values in a block, PQ2_0 twice as many.
template <int kBlock>
struct FormatQ2_0 {
  static constexpr int kValues = kBlock, kBytes = 2 + kBlock / 4, kLoneAt = 0, kLoneBytes = 2, kBias = 1, kGroups = kBlock / 64, kParts = 2;
  static constexpr bool kTrits = false;
  struct Bytes {
    vi codes[4];
  };
  template <class B>
  GOLEM_INLINE vf scale(const B &block) { return block.lone_half(); }
  template <class B>
  GOLEM_INLINE Bytes load(const B &block, int group) {
    Bytes bytes;
    block.dwords4(2 + 16 * group, bytes.codes);
    return bytes;
  }
  // Re-laid: code j of byte i is that of input 4 j + i.
  GOLEM_INLINE uint32_t laid(uint32_t dword) { return exchange_places<3, 1>(exchange_places<4, 2>(dword)); }
  template <int p, class B>
  GOLEM_INLINE void part(const Bytes &bytes, vi *q) {
    for (int i = 0; i < 2; i++, q += 4) {
      const vi codes = bytes.codes[2 * p + i];
      if constexpr (B::kLaid) {
        q[0] = low_bits<2>(codes);
        q[1] = low_bits<2>(shift_right<2>(codes));
        q[2] = low_bits<2>(shift_right<4>(codes));
        q[3] = low_bits<2>(shift_right<6>(codes));
      } else {
        q[0] = two_bit_codes<0>(codes);
        q[1] = two_bit_codes<1>(codes);
        q[2] = two_bit_codes<2>(codes);
        q[3] = two_bit_codes<3>(codes);
      }
    }
  }
};

// Four planes of 32 codes in each 32 bytes.
struct FormatTQ2_0 {
  static constexpr int kValues = 256, kBytes = 66, kLoneAt = 64, kLoneBytes = 2, kBias = 1, kGroups = 2, kParts = 4;
  static constexpr bool kTrits = false;
  template <class B>
  GOLEM_INLINE vf scale(const B &block) { return block.lone_half(); }
  template <class B>
  GOLEM_INLINE typename B::Dwords8 load(const B &block, int group) { return block.dwords8(32 * group); }
  template <int p, class B>
  GOLEM_INLINE void part(const typename B::Dwords8 &bytes, vi *q) {
    for (int j = 0; j < 8; j++) q[j] = low_bits<2>(shift_right<2 * p>(bytes[j]));
  }
};

// The next plane of N dwords whose bytes hold several trits.
template <int N>
GOLEM_INLINE void next_plane(vi *bytes, vi *q) {
  for (int j = 0; j < N; j++) {
    q[j] = bytes[j];
    bytes[j] = times_three(bytes[j]);
  }
}

// 32 bytes of five planes, 16 of five, 4 of four.
struct FormatTQ1_0 {
  static constexpr int kValues = 256, kBytes = 54, kLoneAt = 52, kLoneBytes = 2, kBias = 1, kGroups = 1, kParts = 8;
  static constexpr bool kTrits = true;
  struct Bytes {
    vi wide[8], narrow[4], last[1];
  };
  template <class B>
  GOLEM_INLINE vf scale(const B &block) { return block.lone_half(); }
  template <class B>
  GOLEM_INLINE Bytes load(const B &block, int) {
    Bytes bytes;
    block.dwords4(0, bytes.wide);
    block.dwords4(16, bytes.wide + 4);
    block.dwords4(32, bytes.narrow);
    bytes.last[0] = block.dword(48);
    return bytes;
  }
  template <int p, class B>
  GOLEM_INLINE void part(Bytes &bytes, vi *q) {
    if (p < 5) {
      next_plane<8>(bytes.wide, q);
    } else {
      next_plane<4>(bytes.narrow, q);
      if (p < 7) next_plane<4>(bytes.narrow, q + 4);
      for (int j = 4; j < 8 && p == 7; j++) next_plane<1>(bytes.last, q + j);
    }
  }
};

// 16 bytes of five planes, 8 of five, 2 of four.
struct FormatPTQ1_0 {
  static constexpr int kValues = 128, kBytes = 28, kLoneAt = 0, kLoneBytes = 0, kBias = 1, kGroups = 1, kParts = 4;
  static constexpr bool kTrits = true;
  struct Bytes {
    vi wide[4], narrow[2], last;
  };
  template <class B>
  GOLEM_INLINE vf scale(const B &block) { return half_high(block.dword(24)); }
  template <class B>
  GOLEM_INLINE Bytes load(const B &block, int) {
    Bytes bytes;
    block.dwords4(0, bytes.wide);
    bytes.narrow[0] = block.dword(16);
    bytes.narrow[1] = block.dword(20);
    bytes.last = and_int(block.dword(24), set_int(0xffff));
    return bytes;
  }
  template <int p, class B>
  GOLEM_INLINE void part(Bytes &bytes, vi *q) {
    if (p < 2) {
      next_plane<4>(bytes.wide, q);
      next_plane<4>(bytes.wide, q + 4);
    } else if (p == 2) {
      next_plane<4>(bytes.wide, q);
      next_plane<2>(bytes.narrow, q + 4);
      next_plane<2>(bytes.narrow, q + 6);
    } else {
      next_plane<2>(bytes.narrow, q);
      next_plane<2>(bytes.narrow, q + 2);
      next_plane<2>(bytes.narrow, q + 4);
      q[6] = or_int(bytes.last, shift_left<16>(times_three(bytes.last)));  // two planes of two bytes
      q[7] = times_three(times_three(q[6]));
    }
  }
};

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
