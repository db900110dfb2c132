// Commands over images: 3 x 3 convolution.
#include <atomic>

#include "command.h"
#include "scratch.h"

namespace golem {
namespace {

constexpr int64_t kLinesTogether = 8;  // of one tile of outputs, whose weights are laid out once for them

}  // namespace

int run_conv2d(const Command &c) {
  const int64_t m = c.i(0), channels = c.i(1), width = c.i(2), axis = c.i(3), first = c.i(5);
  if (!c.pointers(3) || (axis >= 0 && c.live == nullptr)) return GOLEM_E_NULL;
  const int64_t source = axis >= 0 ? c.live[axis] : c.i(4);
  if (!sizes_fit(m, channels, width) || channels > int64_t{1} << 20 || source % width != 0 || c.rows % width != 0)
    return GOLEM_E_SHAPE;
  if (first < 0 || first % width != 0 || first > source - c.rows) return GOLEM_E_INDEX;
  const ImageConv conv{c.in<float>(1), c.in<float>(2), c.in<float>(3), c.out<float>(0),
                       source / width, width, channels, m, first / width};
  const int64_t lines = c.rows / width, outputs = kernels().image_tile_outputs, tiles = (m + outputs - 1) / outputs;
  const int64_t bands = (lines + kLinesTogether - 1) / kLinesTogether, floats = kernels().image_conv_floats(channels);
  const double cost = 0.02 * static_cast<double>(9 * channels * outputs * width * kLinesTogether);
  std::atomic<bool> short_of_memory{false};
  c.share(bands * tiles, cost, [&](int64_t begin, int64_t end) {
    thread_local Scratch<float> memory;
    float *mine = memory.of(floats);
    if (mine == nullptr) {
      short_of_memory = true;
      return;
    }
    for (int64_t item = begin; item < end; item++) {
      const int64_t line = item / tiles * kLinesTogether;
      const int64_t last = line + kLinesTogether < lines ? line + kLinesTogether : lines;
      kernels().convolve_image(conv, {line, last, item % tiles * outputs}, mine);
    }
  });
  return short_of_memory ? GOLEM_E_MEMORY : GOLEM_OK;
}

}  // namespace golem
