// Where a tile's blocks are read from: rows of a file, transposed while they are read, or a tile that re-laying has
// transposed once. Both give the same lanes, so a format is written once (formats*.h). Offsets are those
// of the file's block; F says which of its bytes are no dword: kLoneBytes (0, 1 or 2) at kLoneAt.
//
//   dword(at)           lane r: the 4 bytes of row r at that offset
//   dwords4(at, out)    out[j], lane r: the 4 bytes at + 4j
//   dwords8(at)[j]      the same for eight, read when asked for where that is cheaper
//   lone_half(), lone_byte()   the lone bytes of every row, as float and as integer
//   signed_bytes(at, j) lane r of a re-laid tile: byte r of the j-th kLanes bytes from the dwords at that offset on
//   kLaid               whether the tile was re-laid, for formats that want their bits in another order then
//
// A tile: blocks one after the other, the dwords of each for kLanes rows side by side. Where there are lone bytes, a cache line
// of them goes before the blocks they belong to: one stream of memory, which hardware prefetchers follow best, and vectors
// that cross no line. Tiles follow one another; the rows that fill up the last one are zero.
#pragma once
#include "lanes.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {

template <class F>
struct FileBlock {
  static constexpr bool kLaid = false;
  const uint8_t *at;
  int64_t stride;

  struct Dwords8 {
    vi v[8];
    GOLEM_MEMBER vi operator[](int j) const { return v[j]; }
  };
  GOLEM_MEMBER vi dword(int offset) const { return load_dword(at + offset, stride); }
  GOLEM_MEMBER void dwords4(int offset, vi *out) const { load_4_dwords(at + offset, stride, out); }
  GOLEM_MEMBER Dwords8 dwords8(int offset) const {
    Dwords8 d;
    dwords4(offset, d.v);
    dwords4(offset + 16, d.v + 4);
    return d;
  }
  GOLEM_MEMBER vf lone_half() const {  // reads a dword that lies within the block
    if constexpr (F::kLoneAt == 0) return half_low(dword(0));
    else return half_high(dword(F::kLoneAt - 2));
  }
  GOLEM_MEMBER vi lone_byte() const { return and_int(dword(0), set_int(255)); }
};

constexpr int kTileAlign = 64;

template <class F>
struct TileBlock {
  static constexpr bool kLaid = true;
  const uint8_t *dwords, *lone;

  static constexpr int kDwords = (F::kBytes - F::kLoneBytes) / 4, kDwordBytes = kDwords * 4 * kLanes;
  static constexpr int kLine = F::kLoneBytes == 0 ? 0 : kTileAlign;                                // lone bytes of a group,
  static constexpr int kGroup = F::kLoneBytes == 0 ? 1 : kTileAlign / (F::kLoneBytes * kLanes);  // the blocks that share it

  // Block b of a tile.
  GOLEM_MEMBER static TileBlock of(const uint8_t *tile, int64_t b) {
    const uint64_t group = static_cast<uint64_t>(b) / kGroup, at = static_cast<uint64_t>(b) % kGroup;
    const uint8_t *line = tile + group * (kLine + kGroup * kDwordBytes);
    return {line + kLine + at * kDwordBytes, line + at * F::kLoneBytes * kLanes};
  }
  GOLEM_MEMBER static constexpr int64_t tile_bytes(int64_t blocks) {
    const int64_t bytes = (blocks + kGroup - 1) / kGroup * kLine + blocks * kDwordBytes;
    return (bytes + kTileAlign - 1) / kTileAlign * kTileAlign;
  }
  GOLEM_MEMBER static constexpr int index(int offset) { return (F::kLoneAt == 0 ? offset - F::kLoneBytes : offset) / 4; }

  struct Dwords8 {
    const uint8_t *at;
    GOLEM_MEMBER vi operator[](int j) const { return load_lanes(at + j * 4 * kLanes); }
  };
  GOLEM_MEMBER vi dword(int offset) const { return load_lanes(dwords + index(offset) * 4 * kLanes); }
  GOLEM_MEMBER void dwords4(int offset, vi *out) const {
    for (int j = 0; j < 4; j++) out[j] = dword(offset + 4 * j);
  }
  GOLEM_MEMBER Dwords8 dwords8(int offset) const { return {dwords + index(offset) * 4 * kLanes}; }
  GOLEM_MEMBER vf lone_half() const { return load_half(reinterpret_cast<const uint16_t *>(lone)); }
  GOLEM_MEMBER vi lone_byte() const { return load_bytes(lone); }
  GOLEM_MEMBER vi signed_bytes(int offset, int j) const { return load_signed_bytes(dwords + (index(offset) * 4 + j) * kLanes); }
};

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
