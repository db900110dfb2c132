// Attention within texts that lie one after the other in a pass.
#pragma once
#include <cstdint>

namespace golem {

struct TextAttention {
  const float *q, *k, *v;  // [rows, heads, hd]
  float *out;              // like q
  int64_t heads, hd;
  float scale;
  int64_t window;  // rows before and after its own that a query sees; 0: all
};

// Queries begin..end (rows of the pass) and the `rows` rows from `first` on that one of them sees.
struct TextTile {
  int64_t first, rows;
  int64_t begin, end;
  int64_t head;
};

}  // namespace golem
