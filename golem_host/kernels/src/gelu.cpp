#include "gelu.h"

#include <cmath>

#include "half.h"

namespace golem {
namespace {

struct Table {
  uint16_t entry[65536];
  Table() {
    for (uint32_t h = 0; h < 65536; h++) {
      const float x = half_to_float(static_cast<uint16_t>(h));
      const float inner = 0.79788456080286535587989211986876f * x * (1.0f + 0.044715f * x * x);
      // of a double, rounded: those of a float differ between libraries
      const float curve = static_cast<float>(std::tanh(double{inner}));
      entry[h] = float_to_half(0.5f * x * (1.0f + curve));
    }
  }
};

}  // namespace

const uint16_t *gelu_table() {
  static const Table table;
  return table.entry;
}

}  // namespace golem
