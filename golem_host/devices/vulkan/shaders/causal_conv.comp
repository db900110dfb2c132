// silu of a depthwise convolution along a slot's positions, x [rows, channels], taps [TAPS, channels], oldest first. The
// state [slots, TAPS - 1, channels] holds the inputs before a slot's first row of the pass; a row at position 0 has none.
//
// links [rows, 2] (links.comp). Whatever a row needs of the state, nobody may have overwritten: a row that is its slot's
// only one writes the state when it has read it, the last of several does so in a second run of this shader (LAST).
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "math.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const int TAPS = 4;
layout(constant_id = 2) const bool LAST = false;

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 2) readonly buffer Taps { float taps[]; };
layout(std430, set = 0, binding = 3) buffer State { float state[]; };
layout(std430, set = 0, binding = 4) readonly buffer Links { ivec2 links[]; };
layout(std430, set = 0, binding = 5) readonly buffer Slots { int slots[]; };
layout(std430, set = 0, binding = 6) readonly buffer Positions { int positions[]; };
layout(std430, set = 0, binding = 7) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis, slot_count;
  uint channels;
};

const int PAST = TAPS - 1;

void main() {
  const int row = int(gl_WorkGroupID.y);
  const uint channel = gl_GlobalInvocationID.x;
  if (row >= live[axis] || channel >= channels) return;
  const int slot = slots[row];
  if (slot < 0 || slot >= slot_count) return;
  const bool last = links[row].y < 0, only = last && links[row].x < 0;
  if (LAST && (!last || only)) return;
  const uint kept = uint(slot) * uint(PAST) * channels + channel;
  // the inputs, the newest first, back along the slot's rows and from there into the state
  float inputs[TAPS];
  int at = row, first = row, beyond = 0;
  [[unroll]] for (int i = 0; i < TAPS; i++) {
    if (at >= 0) {
      inputs[i] = x[uint(at) * channels + channel];
      first = at;
      at = links[at].x;
    } else {
      inputs[i] = positions[first] == 0 ? 0.0 : state[kept + uint(PAST - 1 - beyond) * channels];
      beyond++;
    }
  }
  if (!LAST) {
    precise float sum = 0.0;
    [[unroll]] for (int i = PAST; i >= 0; i--) sum = fma(inputs[i], taps[uint(PAST - i) * channels + channel], sum);
    result[uint(row) * channels + channel] = silu_of(sum);
  }
  if (LAST || only) {
    [[unroll]] for (int i = 0; i < PAST; i++) state[kept + uint(PAST - 1 - i) * channels] = inputs[i];
  }
}
