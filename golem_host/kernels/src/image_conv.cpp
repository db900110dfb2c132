// A 3 x 3 convolution as products with panels (panel.h). The inputs of a pixel on one of its three lines lie side by side, and
// those of its neighbour begin one pixel further: a line is multiplied where it lies, and nothing is gathered.
//
// A sum begins with the line above and takes each line's inputs in their order; what lies outside the image is left out.
#include "image_conv.h"

#include "isa_functions.h"
#include "panel.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

constexpr int64_t kNearColumns = 48;  // pixels of a line whose inputs stay in the nearest cache

struct Line {
  const float *panel;  // of the tile and the line of taps: [3 * c, kPanelWidth]
  const float *x;      // the first pixel
  bool first, last;    // of the lines that are added up
};

// Pixels begin..end of a line, whose taps from..to (of three) are in the image.
void add_line(const ImageConv &conv, const Line &line, int64_t begin, int64_t end, int64_t from, int64_t to, PanelOut out,
              const float *bias) {
  const int64_t k = (to - from) * conv.c;
  const float *panel = line.panel + from * conv.c * kPanelWidth;
  const float *x = line.x + (begin + from - 1) * conv.c;
  out.at += begin * conv.m;
  for (int64_t i = 0; i < k; i += kPanelSpan) {
    const int64_t n = k - i < kPanelSpan ? k - i : kPanelSpan;
    out.first = line.first && i == 0;
    out.bias = line.last && i + n == k ? bias : nullptr;
    panel_product<Float32>(panel + i * kPanelWidth, n, x + i, conv.c, end - begin, out);
  }
}

}  // namespace

int64_t image_conv_floats(int64_t c) { return 9 * c * kPanelWidth; }

void convolve_image(const ImageConv &conv, const ImageTile &tile, float *memory) {
  const int64_t k = 9 * conv.c, width = conv.m - tile.o < kPanelWidth ? conv.m - tile.o : kPanelWidth;
  transpose_rows<Float32>(reinterpret_cast<const uint8_t *>(conv.w + tile.o * k), k * 4, width, 0, k, memory);
  const float *bias = conv.bias == nullptr ? nullptr : conv.bias + tile.o;
  for (int64_t y = tile.begin; y < tile.end; y++) {
    const int64_t at = conv.first + y, above = at > 0 ? 0 : 1, below = at + 1 < conv.height ? 3 : 2;
    const PanelOut out{conv.out + y * conv.width * conv.m + tile.o, conv.m, width, false, nullptr};
    for (int64_t column = 0; column < conv.width; column += kNearColumns) {
      const int64_t end = column + kNearColumns < conv.width ? column + kNearColumns : conv.width;
      const int64_t inner = column > 0 ? column : 1, inner_end = end < conv.width ? end : conv.width - 1;
      for (int64_t taps = above; taps < below; taps++) {
        const Line line{memory + taps * 3 * conv.c * kPanelWidth, conv.x + (at + taps - 1) * conv.width * conv.c,
                        taps == above, taps + 1 == below};
        if (conv.width == 1) {
          add_line(conv, line, 0, 1, 1, 2, out, bias);
          continue;
        }
        if (column == 0) add_line(conv, line, 0, 1, 1, 3, out, bias);
        if (inner < inner_end) add_line(conv, line, inner, inner_end, 0, 3, out, bias);
        if (end == conv.width) add_line(conv, line, end - 1, end, 0, 2, out, bias);
      }
    }
  }
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
