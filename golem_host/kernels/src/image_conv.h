// The 3 x 3 convolution of an image whose pixels are rows of channels.
#pragma once
#include <cstdint>

namespace golem {

struct ImageConv {
  const float *x;     // [height, width, c]
  const float *w;     // [m, 3, 3, c]
  const float *bias;  // [m] or nullptr
  float *out;         // [lines, width, m]; its first line is line `first` of the image
  int64_t height, width, c, m, first;
};

// Lines begin..end of the output, outputs o.. as many as a tile has.
struct ImageTile {
  int64_t begin, end, o;
};

}  // namespace golem
