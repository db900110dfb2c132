// Attention of float rows over float rows: within texts that lie one after the other in a pass, or over all rows.
#pragma once
#include <cstdint>

namespace golem {

struct TextAttention {
  const float *q, *k, *v;  // q [rows, heads, hd]; k and v [rows, kv_heads, hd]
  float *out;              // like q
  int64_t heads, kv_heads, hd;
  float scale;
  int64_t window;  // rows before and after its own that a query sees; 0: all
  bool causal;     // none after its own
  int64_t own;     // the row among the keys that the first query is at
  bool coarse;     // may be rounded to bfloat16 where that is faster
};

// Queries begin..end (rows of q) and the `rows` rows of k and v from `first` on that one of them sees, of the `laid` that are
// laid out from there on.
struct TextTile {
  int64_t first, rows, laid;
  int64_t begin, end;
  int64_t head;
};

}  // namespace golem
