// Block layouts as in ggml's ggml-common.h; docs name the fields the same way.
#include "decode.h"

#include <cstring>

#include "half.h"

namespace golem {
namespace {

void one_scale(Decoded &out, float d, int n = 32) {
  out.sub = n;
  out.d = d;
  out.dmin = 0;
  out.scale[0] = 1;
  out.min[0] = 0;
}

// q * d + m, as d * q - (-m) * 1
void scale_and_offset(Decoded &out, const uint8_t *dm) {
  one_scale(out, load_half(dm));
  out.dmin = -load_half(dm + 2);
  out.min[0] = 1;
}

void nibbles(const uint8_t *qs, int bias, int8_t *q) {
  for (int e = 0; e < 16; e++) {
    q[e] = static_cast<int8_t>((qs[e] & 15) - bias);
    q[e + 16] = static_cast<int8_t>((qs[e] >> 4) - bias);
  }
}

void fifth_bits(uint32_t qh, int8_t *q) {
  for (int e = 0; e < 32; e++) q[e] = static_cast<int8_t>(q[e] + static_cast<int>(qh >> e & 1u) * 16);
}

void code_values(const int8_t *values, const uint8_t *qs, int8_t *q) {
  for (int e = 0; e < 16; e++) {
    q[e] = values[qs[e] & 15];
    q[e + 16] = values[qs[e] >> 4];
  }
}

void q4_0(const uint8_t *b, Decoded &out) {
  one_scale(out, load_half(b));
  nibbles(b + 2, 8, out.q);
}

void q4_1(const uint8_t *b, Decoded &out) {
  scale_and_offset(out, b);
  nibbles(b + 4, 0, out.q);
}

void q5_0(const uint8_t *b, Decoded &out) {
  one_scale(out, load_half(b));
  nibbles(b + 6, 16, out.q);
  fifth_bits(load_u32(b + 2), out.q);
}

void q5_1(const uint8_t *b, Decoded &out) {
  scale_and_offset(out, b);
  nibbles(b + 8, 0, out.q);
  fifth_bits(load_u32(b + 4), out.q);
}

void q8_0(const uint8_t *b, Decoded &out) {
  one_scale(out, load_half(b));
  memcpy(out.q, b + 2, 32);
}

void iq4_nl(const uint8_t *b, Decoded &out) {
  one_scale(out, load_half(b));
  code_values(kIq4Values, b + 2, out.q);
}

// Half of 2^(e - 127): the values of kFp4Values are doubled. The two smallest are denormal.
float e8m0_half(uint32_t e) { return float_of(e < 2 ? 0x00200000u << e : (e - 1) << 23); }

void mxfp4(const uint8_t *b, Decoded &out) {
  one_scale(out, e8m0_half(b[0]));
  code_values(kFp4Values, b + 1, out.q);
}

void q1_0(const uint8_t *b, Decoded &out) {
  one_scale(out, load_half(b), 128);
  for (int e = 0; e < 128; e++) out.q[e] = static_cast<int8_t>(2 * (b[2 + e / 8] >> e % 8 & 1) - 1);
}

template <int n>
void q2_0(const uint8_t *b, Decoded &out) {
  one_scale(out, load_half(b), n);
  for (int e = 0; e < n; e++) out.q[e] = static_cast<int8_t>((b[2 + e / 4] >> 2 * (e % 4) & 3) - 1);
}

// n bytes hold `digits` planes of n values -1, 0, 1: digit j of a byte, read as a fraction in base 3, belongs to plane j.
int8_t *trits(const uint8_t *packed, int n, int digits, int8_t *q) {
  for (int i = 0; i < n; i++) {
    uint8_t rest = packed[i];
    for (int j = 0; j < digits; j++) {
      q[j * n + i] = static_cast<int8_t>((rest * 3 >> 8) - 1);
      rest = static_cast<uint8_t>(rest * 3);
    }
  }
  return q + digits * n;
}

void tq1_0(const uint8_t *b, Decoded &out) {
  one_scale(out, load_half(b + 52), 256);
  trits(b + 48, 4, 4, trits(b + 32, 16, 5, trits(b, 32, 5, out.q)));
}

void ptq1_0(const uint8_t *b, Decoded &out) {
  one_scale(out, load_half(b + 26), 128);
  trits(b + 24, 2, 4, trits(b + 16, 8, 5, trits(b, 16, 5, out.q)));
}

// Two bits of element e of a 256-block that packs four planes of 32 into each 32 bytes (Q2_K, Q3_K, TQ2_0).
int two_bits(const uint8_t *qs, int e) { return qs[32 * (e / 128) + e % 32] >> 2 * (e % 128 / 32) & 3; }

void q2_k(const uint8_t *b, Decoded &out) {
  const uint8_t *scales = b, *qs = b + 16;
  out.sub = 16;
  out.d = load_half(b + 80);
  out.dmin = load_half(b + 82);
  for (int j = 0; j < 16; j++) {
    out.scale[j] = scales[j] & 15;
    out.min[j] = scales[j] >> 4;
  }
  for (int e = 0; e < 256; e++) out.q[e] = static_cast<int8_t>(two_bits(qs, e));
}

void tq2_0(const uint8_t *b, Decoded &out) {
  one_scale(out, load_half(b + 64), 256);
  for (int e = 0; e < 256; e++) out.q[e] = static_cast<int8_t>(two_bits(b, e) - 1);
}

void q3_k(const uint8_t *b, Decoded &out) {
  const uint8_t *hmask = b, *qs = b + 32, *scales = b + 96;
  out.sub = 16;
  out.d = load_half(b + 108);
  out.dmin = 0;
  for (int j = 0; j < 16; j++) {
    const int low = j < 8 ? scales[j] & 15 : scales[j - 8] >> 4;
    const int high = scales[8 + j % 4] >> 2 * (j / 4) & 3;
    out.scale[j] = (low | high << 4) - 32;
    out.min[j] = 0;
  }
  for (int e = 0; e < 256; e++) {
    const int bit = hmask[e % 32] >> (e / 32) & 1;
    out.q[e] = static_cast<int8_t>(two_bits(qs, e) - (bit ? 0 : 4));
  }
}

// The eight 6-bit (scale, min) pairs of Q4_K and Q5_K.
void scales_and_mins(const uint8_t *b, Decoded &out) {
  const uint8_t *s = b + 4;
  out.sub = 32;
  out.d = load_half(b);
  out.dmin = load_half(b + 2);
  for (int j = 0; j < 4; j++) {
    out.scale[j] = s[j] & 63;
    out.min[j] = s[j + 4] & 63;
    out.scale[j + 4] = (s[j + 8] & 15) | s[j] >> 6 << 4;
    out.min[j + 4] = s[j + 8] >> 4 | s[j + 4] >> 6 << 4;
  }
}

int k_nibble(const uint8_t *qs, int e) { return qs[32 * (e / 64) + e % 32] >> 4 * (e % 64 / 32) & 15; }

void q4_k(const uint8_t *b, Decoded &out) {
  scales_and_mins(b, out);
  for (int e = 0; e < 256; e++) out.q[e] = static_cast<int8_t>(k_nibble(b + 16, e));
}

void q5_k(const uint8_t *b, Decoded &out) {
  const uint8_t *qh = b + 16;
  scales_and_mins(b, out);
  for (int e = 0; e < 256; e++) out.q[e] = static_cast<int8_t>(k_nibble(b + 48, e) | (qh[e % 32] >> (e / 32) & 1) << 4);
}

void q6_k(const uint8_t *b, Decoded &out) {
  const uint8_t *ql = b, *qh = b + 128;
  out.sub = 16;
  out.d = load_half(b + 208);
  out.dmin = 0;
  for (int j = 0; j < 16; j++) {
    out.scale[j] = static_cast<int8_t>(b[192 + j]);
    out.min[j] = 0;
  }
  for (int e = 0; e < 256; e++) {
    const int half = e / 128, plane = e % 128 / 32, l = e % 32;
    const int low = ql[64 * half + 32 * (plane & 1) + l] >> 4 * (plane >> 1) & 15;
    const int high = qh[32 * half + l] >> 2 * plane & 3;
    out.q[e] = static_cast<int8_t>((low | high << 4) - 32);
  }
}

void iq4_xs(const uint8_t *b, Decoded &out) {
  const int high = load_u16(b + 2);
  const uint8_t *low = b + 4, *qs = b + 8;
  out.sub = 32;
  out.d = load_half(b);
  out.dmin = 0;
  for (int j = 0; j < 8; j++) {
    out.scale[j] = ((low[j / 2] >> 4 * (j % 2) & 15) | (high >> 2 * j & 3) << 4) - 32;
    out.min[j] = 0;
    code_values(kIq4Values, qs + 16 * j, out.q + 32 * j);
  }
}

}  // namespace

DecodeFn block_decoder(int64_t type) {
  switch (type) {
    case Q4_0: return q4_0;
    case Q4_1: return q4_1;
    case Q5_0: return q5_0;
    case Q5_1: return q5_1;
    case Q8_0: return q8_0;
    case IQ4_NL: return iq4_nl;
    case Q2_K: return q2_k;
    case Q3_K: return q3_k;
    case Q4_K: return q4_k;
    case Q5_K: return q5_k;
    case Q6_K: return q6_k;
    case IQ4_XS: return iq4_xs;
    case MXFP4: return mxfp4;
    case Q1_0: return q1_0;
    case Q2_0: return q2_0<64>;
    case PQ2_0: return q2_0<128>;
    case PTQ1_0: return ptq1_0;
    case TQ1_0: return tq1_0;
    case TQ2_0: return tq2_0;
    default: return nullptr;
  }
}

void dequantize_row(int64_t type, const uint8_t *row, int64_t n, float *out) {
  if (type == F32) {
    memcpy(out, row, static_cast<size_t>(n) * 4);
  } else if (type == F16) {
    for (int64_t e = 0; e < n; e++) out[e] = load_half(row + 2 * e);
  } else if (type == BF16) {
    for (int64_t e = 0; e < n; e++) out[e] = bfloat_to_float(load_u16(row + 2 * e));
  } else {
    const BlockInfo info = block_info(type);
    const DecodeFn decode = block_decoder(type);
    Decoded block;
    for (int64_t at = 0; at < n; at += info.n, row += info.bytes, out += info.n) {
      decode(row, block);
      for (int64_t e = 0; e < info.n; e++) {
        const int64_t j = e / block.sub;
        out[e] = block.d * static_cast<float>(block.scale[j]) * block.q[e] - block.dmin * static_cast<float>(block.min[j]);
      }
    }
  }
}

}  // namespace golem
