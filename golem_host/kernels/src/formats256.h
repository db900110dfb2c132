// Unpacking super-blocks of 256 into lanes (see lanes.h). A super-block is read in kGroups groups whose bytes
// unpack into kParts parts of 32 consecutive inputs. Every format has
//   kValues, kBytes          bytes of a super-block; kLoneAt, kLoneBytes: those that are no dword (block_source.h)
//   kBits           bits of an unsigned weight, or 8 for a signed one
//   kBias           what is to be subtracted from every unpacked weight
//   kSub            inputs that share a scale: 16 or 32
//   kMins           whether values have an offset - dmin * min
//   head(block, head)          d, dmin, scale[256 / kSub], min[256 / kSub]
//   load(block, group)         the bytes of a group, 32 of each row at a time: Group
//   part<p>(bytes, group, q)   q[8], its part p
#pragma once
#include <cstring>

#include "blocks.h"
#include "formats32.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {

struct Head256 {
  vf d, dmin;
  vi scale[16], min[16];
};

template <int byte>
GOLEM_INLINE vi byte_of(vi a) { return and_int(shift_right<8 * byte>(a), set_int(255)); }
template <int byte>
GOLEM_INLINE vi signed_byte_of(vi a) { return shift_right_signed<24>(shift_left<24 - 8 * byte>(a)); }

GOLEM_INLINE void bytes_of(vi a, vi *out) {
  out[0] = byte_of<0>(a);
  out[1] = byte_of<1>(a);
  out[2] = byte_of<2>(a);
  out[3] = byte_of<3>(a);
}

// The eight 6-bit scales and mins of Q4_K and Q5_K, on four of them at once: one per byte.
template <class B>
GOLEM_INLINE void head_6bit(const B &block, Head256 &head) {
  vi w[4];
  block.dwords4(0, w);
  head.d = half_low(w[0]);
  head.dmin = half_high(w[0]);
  const vi six = set_int(0x3f3f3f3f), top = set_int(0x30303030);
  bytes_of(and_int(w[1], six), head.scale);
  bytes_of(and_int(w[2], six), head.min);
  bytes_of(or_int(low_nibbles(w[3]), and_int(shift_right<2>(w[1]), top)), head.scale + 4);
  bytes_of(or_int(high_nibbles(w[3]), and_int(shift_right<2>(w[2]), top)), head.min + 4);
}

// kBit of every byte, moved to the bit worth 16.
template <int kBit>
GOLEM_INLINE vi bit_as_16(vi a) {
  constexpr int left = kBit < 4 ? 4 - kBit : 0, right = kBit < 4 ? 0 : kBit - 4;
  return and_int(shift_right<right>(shift_left<left>(a)), set_int(0x10101010));
}

// Two bits of every byte from kBit up, moved to the bits worth 16 and 32.
template <int kBit>
GOLEM_INLINE vi two_bits_as_16(vi a) {
  constexpr int left = kBit < 4 ? 4 - kBit : 0, right = kBit < 4 ? 0 : kBit - 4;
  return and_int(shift_right<right>(shift_left<left>(a)), set_int(0x30303030));
}

template <int kBit>
GOLEM_INLINE vi two_bits(vi a) { return and_int(shift_right<kBit>(a), set_int(0x03030303)); }

// N times 32 bytes of every row.
template <class B, int N>
struct Group {
  static constexpr bool kLaid = B::kLaid;
  typename B::Dwords8 of[N];
};

struct FormatQ4_K {
  static constexpr int kValues = 256, kBytes = 144, kLoneAt = 0, kLoneBytes = 0, kBits = 4, kBias = 0, kSub = 32, kGroups = 4, kParts = 2;
  static constexpr bool kMins = true;
  template <class B>
  GOLEM_INLINE void head(const B &block, Head256 &head) { head_6bit(block, head); }
  template <class B>
  GOLEM_INLINE Group<B, 1> load(const B &block, int group) {
    return {{block.dwords8(16 + 32 * group)}};
  }
  template <int p, class G>
  GOLEM_INLINE void part(const G &bytes, int, vi *q) {
    for (int j = 0; j < 8; j++) q[j] = low_nibbles(shift_right<4 * p>(bytes.of[0][j]));
  }
};

// One group of 256: the high bits of all parts lie in the same 32 bytes.
struct FormatQ5_K {
  static constexpr int kValues = 256, kBytes = 176, kLoneAt = 0, kLoneBytes = 0, kBits = 5, kBias = 0, kSub = 32, kGroups = 1, kParts = 8;
  static constexpr bool kMins = true;
  template <class B>
  GOLEM_INLINE void head(const B &block, Head256 &head) { head_6bit(block, head); }
  template <class B>
  GOLEM_INLINE Group<B, 5> load(const B &block, int) {
    return {{block.dwords8(16), block.dwords8(48), block.dwords8(80), block.dwords8(112), block.dwords8(144)}};
  }
  template <int p, class G>
  GOLEM_INLINE void part(const G &bytes, int, vi *q) {
    const auto &low = bytes.of[1 + p / 2];
    for (int j = 0; j < 8; j++) q[j] = or_int(low_nibbles(shift_right<4 * (p % 2)>(low[j])), bit_as_16<p>(bytes.of[0][j]));
  }
};

// Re-laid, a block begins with its scales, each of all rows in consecutive bytes; a group's bytes are its parts 0, 1 and 2
// with two bits each of part 3 above them, so that little is to be put together.
struct FormatQ6_K {
  static constexpr int kValues = 256, kBytes = 210, kLoneAt = 208, kLoneBytes = 2, kBits = 6, kBias = 32, kSub = 16, kGroups = 2, kParts = 4;
  static constexpr bool kMins = false;
  template <class B>
  GOLEM_INLINE void head(const B &block, Head256 &head) {
    head.d = block.lone_half();
    if constexpr (B::kLaid) {
      for (int j = 0; j < 16; j++) head.scale[j] = block.signed_bytes(0, j);
    } else {
      vi w[4];
      block.dwords4(192, w);
      for (int i = 0; i < 4; i++) {
        head.scale[4 * i] = signed_byte_of<0>(w[i]);
        head.scale[4 * i + 1] = signed_byte_of<1>(w[i]);
        head.scale[4 * i + 2] = signed_byte_of<2>(w[i]);
        head.scale[4 * i + 3] = signed_byte_of<3>(w[i]);
      }
    }
  }
  template <class B>
  GOLEM_INLINE Group<B, 3> load(const B &block, int group) {
    if constexpr (B::kLaid) return {{block.dwords8(96 * group + 16), block.dwords8(96 * group + 48), block.dwords8(96 * group + 80)}};
    else return {{block.dwords8(64 * group), block.dwords8(64 * group + 32), block.dwords8(128 + 32 * group)}};
  }
  template <int p, class G>
  GOLEM_INLINE void part(const G &bytes, int, vi *q) {
    const auto &a = bytes.of[0], &b = bytes.of[1], &c = bytes.of[2];
    const vi six = set_int(0x3f3f3f3f);
    for (int j = 0; j < 8; j++) {
      if constexpr (!G::kLaid) {
        q[j] = or_int(low_nibbles(shift_right<4 * (p / 2)>(p % 2 == 0 ? a[j] : b[j])), two_bits_as_16<2 * p>(c[j]));
      } else if constexpr (p < 3) {
        q[j] = and_int(bytes.of[p][j], six);
      } else {
        const vi ab = choose_bits(set_int(0x03030303), shift_right<6>(a[j]), shift_right<4>(b[j]));
        q[j] = and_int(choose_bits(set_int(0x0f0f0f0f), ab, shift_right<2>(c[j])), six);
      }
    }
  }
  // The dwords of a re-laid block, of kLanes rows side by side, from those of the file.
  static void lay_block(uint32_t *dwords) {
    constexpr uint32_t kNibble = 0x0f0f0f0f, kTwo = 0x03030303;
    uint32_t file[52 * kLanes];
    memcpy(file, dwords, sizeof file);
    uint8_t *scales = reinterpret_cast<uint8_t *>(dwords);
    for (int r = 0; r < kLanes; r++) {
      const uint32_t *from = file + r;
      for (int j = 0; j < 16; j++) scales[j * kLanes + r] = static_cast<uint8_t>(from[(48 + j / 4) * kLanes] >> 8 * (j % 4));
      for (int i = 0; i < 16; i++) {
        const int group = i / 8, j = i % 8;
        const uint32_t low = from[(16 * group + j) * kLanes], next = from[(16 * group + 8 + j) * kLanes];
        const uint32_t high = from[(32 + i) * kLanes], last = (next >> 4 & kNibble) | (high >> 6 & kTwo) << 4;
        uint32_t *to = dwords + (4 + 24 * group + j) * kLanes + r;
        to[0] = (low & kNibble) | (high & kTwo) << 4 | (last & kTwo) << 6;
        to[8 * kLanes] = (next & kNibble) | (high >> 2 & kTwo) << 4 | (last >> 2 & kTwo) << 6;
        to[16 * kLanes] = (low >> 4 & kNibble) | (high >> 4 & kTwo) << 4 | (last >> 4 & kTwo) << 6;
      }
    }
  }
};

struct FormatQ2_K {
  static constexpr int kValues = 256, kBytes = 84, kLoneAt = 0, kLoneBytes = 0, kBits = 4, kBias = 0, kSub = 16, kGroups = 2, kParts = 4;
  static constexpr bool kMins = true;
  template <class B>
  GOLEM_INLINE void head(const B &block, Head256 &head) {
    const vi dd = block.dword(80);
    head.d = half_low(dd);
    head.dmin = half_high(dd);
    vi w[4];
    block.dwords4(0, w);
    for (int i = 0; i < 4; i++) {
      bytes_of(low_nibbles(w[i]), head.scale + 4 * i);
      bytes_of(high_nibbles(w[i]), head.min + 4 * i);
    }
  }
  template <class B>
  GOLEM_INLINE Group<B, 1> load(const B &block, int group) {
    return {{block.dwords8(16 + 32 * group)}};
  }
  template <int p, class G>
  GOLEM_INLINE void part(const G &bytes, int, vi *q) {
    for (int j = 0; j < 8; j++) q[j] = two_bits<2 * p>(bytes.of[0][j]);
  }
};

// The mask of high bits (32 bytes, bit e / 32) is that of both groups.
struct FormatQ3_K {
  static constexpr int kValues = 256, kBytes = 110, kLoneAt = 108, kLoneBytes = 2, kBits = 4, kBias = 4, kSub = 16, kGroups = 2, kParts = 4;
  static constexpr bool kMins = false;
  template <class B>
  GOLEM_INLINE void head(const B &block, Head256 &head) {
    head.d = block.lone_half();
    const vi a = block.dword(96), b = block.dword(100), c = block.dword(104);
    const vi top = set_int(0x30303030);
    bytes_of(or_int(low_nibbles(a), and_int(shift_left<4>(c), top)), head.scale);
    bytes_of(or_int(low_nibbles(b), and_int(shift_left<2>(c), top)), head.scale + 4);
    bytes_of(or_int(high_nibbles(a), and_int(c, top)), head.scale + 8);
    bytes_of(or_int(high_nibbles(b), and_int(shift_right<2>(c), top)), head.scale + 12);
    for (int j = 0; j < 16; j++) head.scale[j] = sub_int(head.scale[j], set_int(32));
  }
  template <class B>
  GOLEM_INLINE Group<B, 2> load(const B &block, int group) {
    return {{block.dwords8(32 + 32 * group), block.dwords8(0)}};
  }
  template <int p, class G>
  GOLEM_INLINE void part(const G &bytes, int group, vi *q) {
    for (int j = 0; j < 8; j++) {
      const vi high = group == 0 ? bit_as_16<p>(bytes.of[1][j]) : bit_as_16<p + 4>(bytes.of[1][j]);
      q[j] = or_int(two_bits<2 * p>(bytes.of[0][j]), shift_right<2>(high));
    }
  }
};

struct FormatIQ4_XS {
  static constexpr int kValues = 256, kBytes = 136, kLoneAt = 0, kLoneBytes = 0, kBits = 8, kBias = kSignedBias, kSub = 32, kGroups = 4, kParts = 2;
  static constexpr bool kMins = false;
  template <class B>
  GOLEM_INLINE void head(const B &block, Head256 &head) {
    const vi dh = block.dword(0), low = block.dword(4);
    head.d = half_low(dh);
    vi even[4], odd[4];
    bytes_of(low_nibbles(low), even);
    bytes_of(high_nibbles(low), odd);
    vi high[8];
    high[0] = shift_right<16>(dh);
    high[1] = shift_right<18>(dh);
    high[2] = shift_right<20>(dh);
    high[3] = shift_right<22>(dh);
    high[4] = shift_right<24>(dh);
    high[5] = shift_right<26>(dh);
    high[6] = shift_right<28>(dh);
    high[7] = shift_right<30>(dh);
    for (int j = 0; j < 8; j++) {
      const vi top = shift_left<4>(and_int(high[j], set_int(3)));
      head.scale[j] = sub_int(or_int(j % 2 == 0 ? even[j / 2] : odd[j / 2], top), set_int(32));
    }
  }
  template <class B>
  GOLEM_INLINE Group<B, 1> load(const B &block, int group) {
    return {{block.dwords8(8 + 32 * group)}};
  }
  template <int p, class G>
  GOLEM_INLINE void part(const G &bytes, int, vi *q) {
    const vi table = lane_table(kIq4Values);
    for (int j = 0; j < 4; j++) {
      const vi packed = bytes.of[0][4 * p + j];
      q[j] = signed_bytes(table_values(table, low_nibbles(packed)));
      q[j + 4] = signed_bytes(table_values(table, high_nibbles(packed)));
    }
  }
};

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
