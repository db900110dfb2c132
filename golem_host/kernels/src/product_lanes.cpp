// Quantized products on vectors: a tile of kLanes weight rows, one per lane, times a few activation rows. Tiles are read
// from rows as a file stores them or from re-laid memory (block_source.h). The sums are those of product_blocks.cpp, to
// the bit.
#include "product_blocks.h"

#include <cstring>

#include "activation.h"
#include "isa_functions.h"

#if defined(GOLEM_ISA_AVX512) || defined(GOLEM_ISA_AVX2) || defined(GOLEM_ISA_NEON)
#include "few_bits.h"
#include "formats256.h"
#include "formats32.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

// A tile of rows as a file stores them.
template <class F>
struct FileTile {
  const uint8_t *first;
  int64_t stride;

  FileTile(const Product &p, int64_t o) : first(p.w + o * p.w_stride), stride(p.w_stride) {}

  // Also asks for the bytes that the next tile will read: weight rows are contiguous, so tiles are too, and a tile's
  // short rows at once are more streams than hardware prefetchers follow. Past the end that does nothing.
  template <int C>
  GOLEM_MEMBER FileBlock<F> block(int64_t b) const {
    const uint8_t *next = first + kLanes * (stride + b * F::kBytes);
    for (int at = 0; at < kLanes * F::kBytes; at += 64) __builtin_prefetch(next + at, 0, 2);
    return {first + b * F::kBytes, stride};
  }
};

// Whether a re-laid block is read from front to back: not those that end with their scale.
template <class F>
constexpr bool kInOrder = F::kLoneAt == 0;
template <>
constexpr bool kInOrder<FormatQ6_K> = true;

// A re-laid tile: one stream of memory. With one activation row the hardware runs ahead far enough by itself, further than
// prefetch instructions, which wait for a free miss buffer each. With several it does not, as reads come more slowly; nor
// where blocks are not read in order.
template <class F>
struct LaidTile {
  const uint8_t *first;

  LaidTile(const Product &p, int64_t o) : first(p.w + o / kLanes * p.w_stride) {}
  template <int C>
  GOLEM_MEMBER TileBlock<F> block(int64_t b) const {
    constexpr int kAhead = 16384;  // bytes: past what memory takes to answer, within the second-level cache
    constexpr int kBlock = TileBlock<F>::kDwordBytes + F::kLoneBytes * kLanes;
    for (int at = 0; at < kBlock && (C > 1 || !kInOrder<F>); at += 64) __builtin_prefetch(first + b * kBlock + kAhead + at, 0, 2);
    return TileBlock<F>::of(first, b);
  }
};

// The activation rows of a tile.
struct Activations {
  const uint8_t *first;
  int64_t stride;
  const uint8_t *row(int c) const { return first + c * stride; }
};

// Blocks of 32 with Q8_0 or Q8_1 activations. Each row is reached by one pointer and offsets that all rows share,
// because pointers to every array of every row would not fit the registers.
template <class F>
struct Blocks32 {
  using Format = F;

  template <int C, class Tile>
  static void run(const Tile &tile, int64_t k, const Activations &x, vf *sum) {
    vf acc[C];
    for (int c = 0; c < C; c++) acc[c] = zero();
    for (int64_t b = 0; b < k / 32; b++) {
      vi q[8];
      vf d, m = zero();
      F::unpack(tile.template block<C>(b), q, d, m);
      const int64_t q_at = 32 * b, d_at = act32_d_at(k, b), s_at = act32_s_at(k, b);
      for (int c = 0; c < C; c++) {
        const uint8_t *row = x.row(c);
        vi whole = dot<F::kBits, 8>(q, codes_at(row, q_at));
        if (F::kBias != 0) whole = sub_int(whole, set_int(F::kBias * int_at(row, s_at)));
        acc[c] = acc[c] + (d * set1(float_at(row, d_at))) * to_float(whole);
        if (F::kOffset) acc[c] = acc[c] + m * set1(float_at(row, s_at));
      }
    }
    for (int c = 0; c < C; c++) sum[c] = acc[c];
  }
};

// Super-blocks of 256 with Q8_K activations.
template <class F>
struct Blocks256 {
  using Format = F;
  static constexpr int kSubs = 256 / F::kSub;

  // The parts of one group from part p on: whole[c] += scale * (q . x).
  template <int C, int p, class Group>
  GOLEM_INLINE void parts(const Group &bytes, int group, const vi *scale, const Activations &x, int64_t at, vi *whole) {
    if constexpr (p < F::kParts) {
      vi q[8];
      F::template part<p>(bytes, group, q);
      for (int c = 0; c < C; c++) {
        const int8_t *a = codes_at(x.row(c), at);
        if (F::kSub == 32) {
          whole[c] = add_int(whole[c], dot_scaled<F::kBits, 8>(q, a, scale[0]));
        } else {
          whole[c] = add_int(whole[c], dot_scaled<F::kBits, 4>(q, a, scale[0]));
          whole[c] = add_int(whole[c], dot_scaled<F::kBits, 4>(q + 4, a + 16, scale[1]));
        }
      }
      parts<C, p + 1>(bytes, group, scale + 32 / F::kSub, x, at + 32, whole);
    }
  }

  // Sum over sub-blocks of factor * (sum of the activations of the sub-block).
  static vi with_sums(const vi *pairs, const int16_t *sums) {
    vi total = set_int(0);
    for (int j = 0; j < kSubs; j += 2) total = dot_pairs(total, pairs[j / 2], sums + j);
    return total;
  }

  static void pair_up(const vi *factor, vi *pairs) {
    for (int j = 0; j < kSubs; j += 2) pairs[j / 2] = pair(factor[j], factor[j + 1]);
  }

  template <int C, class Tile>
  static void run(const Tile &tile, int64_t k, const Activations &x, vf *sum) {
    for (int c = 0; c < C; c++) sum[c] = zero();
    for (int64_t b = 0; b < k / 256; b++) {
      const auto block = tile.template block<C>(b);
      Head256 head;
      F::head(block, head);
      vi whole[C], scale[kSubs], pairs[kSubs / 2];
      for (int c = 0; c < C; c++) whole[c] = set_int(0);
      for (int j = 0; j < kSubs; j++) scale[j] = dot_scale(head.scale[j]);
#pragma GCC unroll 2
      for (int g = 0; g < F::kGroups; g++) {
        const auto bytes = F::load(block, g);
        parts<C, 0>(bytes, g, scale + g * (kSubs / F::kGroups), x, 256 * b + g * (256 / F::kGroups), whole);
      }
      if (F::kBias != 0) pair_up(head.scale, pairs);
      if (F::kMins) pair_up(head.min, pairs);
      const int64_t d_at = act256_d_at(k, b), sums_at = kSubs == 16 ? act256_sum16_at(k, b) : act256_sum32_at(k, b);
      for (int c = 0; c < C; c++) {
        const vf d = set1(float_at(x.row(c), d_at));
        const int16_t *sums = shorts_at(x.row(c), sums_at);
        if (F::kBias != 0) whole[c] = sub_int(whole[c], mul_int(set_int(F::kBias), with_sums(pairs, sums)));
        sum[c] = sum[c] + (head.d * d) * to_float(whole[c]);
        if (F::kMins) sum[c] = sum[c] - (head.dmin * d) * to_float(with_sums(pairs, sums));
      }
    }
  }
};

// Lanes first..last of a tile that starts at weight row o, for C activation rows from c.
template <class Blocks, class Tile, int C>
void tile(const Product &p, const Tile &weights, int64_t o, int first, int last, int64_t c) {
  vf sum[C];
  const Activations x{p.x + c * p.x_stride, p.x_stride};
  Blocks::template run<C>(weights, p.k, x, sum);
  const bool whole = first == 0 && last == kLanes;
  const vf bias = p.bias == nullptr ? zero() : load_part(p.bias + o, last);
  for (int j = 0; j < C; j++) {
    float *out = p.out + (c + j) * p.m + o;
    if (whole) {
      store(out, sum[j] + bias);
    } else {
      float lanes[kLanes];
      store(lanes, sum[j] + bias);
      for (int r = first; r < last; r++) out[r] = lanes[r];
    }
  }
}

template <class Blocks, class Tile>
void columns(const Product &p, int64_t o, int first, int last) {
  const Tile weights(p, o);
  int64_t c = 0;
  for (; c + kColumns <= p.rows; c += kColumns) tile<Blocks, Tile, kColumns>(p, weights, o, first, last, c);
  if (kColumns > 4 && c + 4 <= p.rows) {
    tile<Blocks, Tile, 4>(p, weights, o, first, last, c);
    c += 4;
  }
  if (c + 2 <= p.rows) {
    tile<Blocks, Tile, 2>(p, weights, o, first, last, c);
    c += 2;
  }
  if (c < p.rows) tile<Blocks, Tile, 1>(p, weights, o, first, last, c);
}

// Rows that fill no tile are the last lanes of one that ends at `end`; too few for that: the portable product.
template <class Blocks, int type>
void product(const Product &p, int64_t begin, int64_t end) {
  using Tile = FileTile<typename Blocks::Format>;
  int64_t o = begin;
  for (; o + kLanes <= end; o += kLanes) columns<Blocks, Tile>(p, o, 0, kLanes);
  if (o == end) return;
  if (end >= kLanes) columns<Blocks, Tile>(p, end - kLanes, static_cast<int>(kLanes - (end - o)), kLanes);
  else portable_product(type)(p, o, end);
}

// begin is a multiple of kLanes.
template <class Blocks>
void laid_product(const Product &p, int64_t begin, int64_t end) {
  using Tile = LaidTile<typename Blocks::Format>;
  for (int64_t o = begin; o < end; o += kLanes) columns<Blocks, Tile>(p, o, 0, static_cast<int>(end - o < kLanes ? end - o : kLanes));
}

// Re-lays the rows of one tile; those from `rows` on are zero.
template <class F>
void lay(const uint8_t *w, int64_t stride, int64_t rows, int64_t k, uint8_t *out) {
  using Block = TileBlock<F>;
  memset(out, 0, static_cast<size_t>(Block::tile_bytes(k / F::kValues)));
  for (int64_t b = 0; b < k / F::kValues; b++, w += F::kBytes) {
    const Block block = Block::of(out, b);
    uint8_t *lone = const_cast<uint8_t *>(block.lone), *dwords = const_cast<uint8_t *>(block.dwords);
    for (int r = 0; r < rows && F::kLoneBytes > 0; r++)
      memcpy(lone + r * F::kLoneBytes, w + r * stride + F::kLoneAt, F::kLoneBytes);
    const uint8_t *first = F::kLoneAt == 0 ? w + F::kLoneBytes : w;
    int j = 0;
    for (; j + 4 <= Block::kDwords && rows == kLanes; j += 4) {
      vi four[4];
      load_4_dwords(first + 4 * j, stride, four);
      for (int i = 0; i < 4; i++) store_lanes(dwords + (j + i) * 4 * kLanes, four[i]);
    }
    for (; j < Block::kDwords; j++)
      for (int r = 0; r < rows; r++) memcpy(dwords + (j * kLanes + r) * 4, first + r * stride + 4 * j, 4);
  }
}

// As lay, with the bits of every dword in the order that F wants of re-laid ones.
template <class F>
void lay_bits(const uint8_t *w, int64_t stride, int64_t rows, int64_t k, uint8_t *out) {
  using Block = TileBlock<F>;
  lay<F>(w, stride, rows, k, out);
  for (int64_t b = 0; b < k / F::kValues; b++) {
    uint32_t *dwords = reinterpret_cast<uint32_t *>(const_cast<uint8_t *>(Block::of(out, b).dwords));
    for (int i = 0; i < Block::kDwords * kLanes; i++) dwords[i] = F::laid(dwords[i]);
  }
}

// As lay, with every block as F wants re-laid ones.
template <class F>
void lay_blocks(const uint8_t *w, int64_t stride, int64_t rows, int64_t k, uint8_t *out) {
  using Block = TileBlock<F>;
  lay<F>(w, stride, rows, k, out);
  for (int64_t b = 0; b < k / F::kValues; b++)
    F::lay_block(reinterpret_cast<uint32_t *>(const_cast<uint8_t *>(Block::of(out, b).dwords)));
}

template <class Blocks>
Layout layout(decltype(Layout::lay) lay_tile = lay<typename Blocks::Format>) {
  using F = typename Blocks::Format;
  return {laid_product<Blocks>, lay_tile, [](int64_t k) { return TileBlock<F>::tile_bytes(k / F::kValues); }};
}

}  // namespace

const int64_t kQuantizedRows = kLanes;

ProductFn quantized_product(int type) {
  switch (type) {
    case Q4_0: return product<Blocks32<FormatQ4_0>, Q4_0>;
    case Q4_1: return product<Blocks32<FormatQ4_1>, Q4_1>;
    case Q5_0: return product<Blocks32<FormatQ5_0>, Q5_0>;
    case Q5_1: return product<Blocks32<FormatQ5_1>, Q5_1>;
    case Q8_0: return product<Blocks32<FormatQ8_0>, Q8_0>;
    case IQ4_NL: return product<Blocks32<FormatIQ4_NL>, IQ4_NL>;
    case Q2_K: return product<Blocks256<FormatQ2_K>, Q2_K>;
    case Q3_K: return product<Blocks256<FormatQ3_K>, Q3_K>;
    case Q4_K: return product<Blocks256<FormatQ4_K>, Q4_K>;
    case Q5_K: return product<Blocks256<FormatQ5_K>, Q5_K>;
    case Q6_K: return product<Blocks256<FormatQ6_K>, Q6_K>;
    case IQ4_XS: return product<Blocks256<FormatIQ4_XS>, IQ4_XS>;
    case MXFP4: return product<Blocks32<FormatMXFP4>, MXFP4>;
    case Q1_0: return product<FewBits32<FormatQ1_0>, Q1_0>;
    case Q2_0: return product<FewBits32<FormatQ2_0<64>>, Q2_0>;
    case PQ2_0: return product<FewBits32<FormatQ2_0<128>>, PQ2_0>;
    case PTQ1_0: return product<FewBits32<FormatPTQ1_0>, PTQ1_0>;
    case TQ1_0: return product<FewBits256<FormatTQ1_0>, TQ1_0>;
    case TQ2_0: return product<FewBits256<FormatTQ2_0>, TQ2_0>;
    default: return nullptr;
  }
}

Layout layout_of(int type) {
  switch (type) {
    case Q4_0: return layout<Blocks32<FormatQ4_0>>();
    case Q4_1: return layout<Blocks32<FormatQ4_1>>();
    case Q5_0: return layout<Blocks32<FormatQ5_0>>();
    case Q5_1: return layout<Blocks32<FormatQ5_1>>();
    case Q8_0: return layout<Blocks32<FormatQ8_0>>();
    case IQ4_NL: return layout<Blocks32<FormatIQ4_NL>>();
    case Q2_K: return layout<Blocks256<FormatQ2_K>>();
    case Q3_K: return layout<Blocks256<FormatQ3_K>>();
    case Q4_K: return layout<Blocks256<FormatQ4_K>>();
    case Q5_K: return layout<Blocks256<FormatQ5_K>>();
    case Q6_K: return layout<Blocks256<FormatQ6_K>>(lay_blocks<FormatQ6_K>);
    case IQ4_XS: return layout<Blocks256<FormatIQ4_XS>>();
    case MXFP4: return layout<Blocks32<FormatMXFP4>>();
    case Q1_0: return layout<FewBits32<FormatQ1_0>>(lay_bits<FormatQ1_0>);
    case Q2_0: return layout<FewBits32<FormatQ2_0<64>>>(lay_bits<FormatQ2_0<64>>);
    case PQ2_0: return layout<FewBits32<FormatQ2_0<128>>>(lay_bits<FormatQ2_0<128>>);
    case PTQ1_0: return layout<FewBits32<FormatPTQ1_0>>();
    case TQ1_0: return layout<FewBits256<FormatTQ1_0>>();
    case TQ2_0: return layout<FewBits256<FormatTQ2_0>>();
    default: return {};
  }
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem

#else

namespace golem {
namespace generic {

const int64_t kQuantizedRows = 1;

ProductFn quantized_product(int type) { return portable_product(type); }

Layout layout_of(int) { return {}; }

}  // namespace generic
}  // namespace golem

#endif
