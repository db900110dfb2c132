// Keys k [rows, kv_heads, key_dim] and values v [rows, kv_heads, value_dim] into the cells of their slots and positions,
// as halves (`cache.py`). A thread writes a word of two.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "half.glsl"
#include "cells.glsl"

layout(local_size_x_id = 0) in;

layout(std430, set = 0, binding = 0) writeonly buffer Keys { uint keys[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Values { uint values[]; };
layout(std430, set = 0, binding = 2) readonly buffer K { float k[]; };
layout(std430, set = 0, binding = 3) readonly buffer V { float v[]; };
layout(std430, set = 0, binding = 4) readonly buffer Slots { int slots[]; };
layout(std430, set = 0, binding = 5) readonly buffer Positions { int positions[]; };
layout(std430, set = 0, binding = 6) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis, slot_count;
  uint kv_heads, key_dim, value_dim, cells;
};

void main() {
  const uint row = gl_WorkGroupID.y;
  if (int(row) >= live[axis]) return;
  const int slot = slots[row], position = positions[row];
  if (slot < 0 || slot >= slot_count || position < 0) return;
  const uint key_words = (key_dim + 1) / 2, value_words = (value_dim + 1) / 2, cell = uint(position) % cells;
  uint item = gl_GlobalInvocationID.x;
  if (item < kv_heads * key_words) {
    const uint head = item / key_words, word = item % key_words, at = (row * kv_heads + head) * key_dim + 2 * word;
    const uint to = first_key(uint(slot) * kv_heads + head, cells, key_words) + key_word(cell, word, key_words);
    keys[to] = half_pair(k[at], 2 * word + 1 < key_dim ? k[at + 1] : 0.0);
    return;
  }
  item -= kv_heads * key_words;
  if (item >= kv_heads * value_words) return;
  const uint head = item / value_words, word = item % value_words, at = (row * kv_heads + head) * value_dim + 2 * word;
  const uint to = ((uint(slot) * kv_heads + head) * cells + cell) * value_words + word;
  values[to] = half_pair(v[at], 2 * word + 1 < value_dim ? v[at + 1] : 0.0);
}
