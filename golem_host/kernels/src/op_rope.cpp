// Rotary position embedding: the table of angles, and rotating heads by it.
#include <cmath>

#include "command.h"

namespace golem {
namespace {

constexpr int64_t kAxes = 4;

struct Yarn {
  float ext_factor, low, high;

  // Between which pairs the angle passes from extrapolated to interpolated (YaRN, arXiv 2309.00071).
  static Yarn make(const Command &c, float n_rot, float base) {
    const auto pair_of = [&](float turns) {
      return n_rot * logf(static_cast<float>(c.i(1)) / (turns * 2.0f * 3.14159265358979f)) / (2.0f * logf(base));
    };
    const float low = floorf(pair_of(c.f(4))), high = ceilf(pair_of(c.f(5)));
    return {c.f(2), low > 0 ? low : 0, high < n_rot - 1 ? high : n_rot - 1};
  }

  float angle(float extrapolated, float freq_scale, int64_t pair) const {
    const float interpolated = freq_scale * extrapolated;
    if (ext_factor == 0) return interpolated;
    const float width = high - low > 0.001f ? high - low : 0.001f;
    const float y = (static_cast<float>(pair) - low) / width;
    const float mix = (1.0f - (y < 0 ? 0 : y > 1 ? 1 : y)) * ext_factor;
    return interpolated * (1.0f - mix) + extrapolated * mix;
  }
};

// Which of a row's positions turns each pair.
struct Axes {
  int64_t kind, sections[kAxes], pairs;  // pairs: of all sections, after which they begin anew

  static Axes make(const Command &c) {
    Axes axes{c.i(2), {c.i(3), c.i(4), c.i(5), c.i(6)}, 0};
    for (const int64_t size : axes.sections) axes.pairs += size;
    return axes;
  }

  bool valid(int64_t pairs_of_head) const {
    if (kind == GOLEM_AXES_ONE) return true;
    for (const int64_t size : sections)
      if (size < 0 || size > pairs_of_head) return false;
    return pairs > 0 && pairs <= pairs_of_head;
  }

  int64_t count() const { return kind == GOLEM_AXES_ONE ? 1 : kAxes; }

  int64_t axis(int64_t pair) const {
    if (kind == GOLEM_AXES_ONE) return 0;
    int64_t at = pair % pairs;
    if (kind == GOLEM_AXES_INTERLEAVED) return at < 3 * sections[at % 3] ? at % 3 : 3;
    int64_t axis = 0;
    while (axis < kAxes - 1 && at >= sections[axis]) at -= sections[axis++];
    return axis;
  }
};

}  // namespace

int run_rope_angles(const Command &c) {
  const int64_t n_rot = c.i(0);
  const float base = c.f(0), freq_scale = c.f(1), ext_factor = c.f(2);
  if (!c.pointers(2)) return GOLEM_E_NULL;
  if (!sizes_fit(n_rot) || n_rot % 2 != 0 || !(base > 0)) return GOLEM_E_SHAPE;
  if (ext_factor != 0 && (c.i(1) <= 0 || !(freq_scale > 0) || !(c.f(4) > 0) || !(c.f(5) > 0))) return GOLEM_E_SHAPE;
  const Axes axes = Axes::make(c);
  if (axes.kind < GOLEM_AXES_ONE || axes.kind > GOLEM_AXES_INTERLEAVED) return GOLEM_E_TYPE;
  if (!axes.valid(n_rot / 2)) return GOLEM_E_SHAPE;
  const float n = static_cast<float>(n_rot), step = powf(base, -2.0f / n);
  const Yarn yarn = ext_factor != 0 ? Yarn::make(c, n, base) : Yarn{0, 0, 0};
  const float magnitude = c.f(3) * (ext_factor != 0 ? 1.0f + 0.1f * logf(1.0f / freq_scale) : 1.0f);
  const int32_t *positions = c.in<int32_t>(1);
  const float *factors = c.in<float>(2);
  c.share(c.rows, 15.0 * n, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      float *out = c.out<float>(0) + r * n_rot;
      float thetas[kAxes];
      const int32_t *position = positions + r * axes.count();
      for (int64_t axis = 0; axis < axes.count(); axis++) thetas[axis] = static_cast<float>(position[axis]);
      for (int64_t i = 0; i < n_rot / 2; i++) {
        const float theta = thetas[axes.axis(i)];
        const float angle = yarn.angle(factors == nullptr ? theta : theta / factors[i], freq_scale, i);
        out[2 * i] = cosf(angle) * magnitude;
        out[2 * i + 1] = sinf(angle) * magnitude;
        for (int64_t axis = 0; axis < axes.count(); axis++) thetas[axis] *= step;
      }
    }
  });
  return GOLEM_OK;
}

int run_rope(const Command &c) {
  const int64_t heads = c.i(0), hd = c.i(1), n_rot = c.i(2), style = c.i(3);
  if (!c.pointers(3)) return GOLEM_E_NULL;
  if (style != GOLEM_ROPE_NORM && style != GOLEM_ROPE_NEOX) return GOLEM_E_TYPE;
  if (!sizes_fit(heads, hd, n_rot) || n_rot > hd || n_rot % 2 != 0) return GOLEM_E_SHAPE;
  c.share(c.rows * heads, 0.5 * static_cast<double>(hd), [&](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; h++)
      kernels().rotate(c.out<float>(0) + h * hd, c.in<float>(1) + h * hd, c.in<float>(2) + h / heads * n_rot, hd, n_rot,
                       static_cast<int>(style));
  });
  return GOLEM_OK;
}

}  // namespace golem
