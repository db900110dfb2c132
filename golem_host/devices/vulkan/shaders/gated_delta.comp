// The gated delta rule (Yang, Kautz and Hatamizadeh 2024, arXiv 2412.06464), one row of a slot after the other. A
// workgroup takes COLUMNS columns of one head's state [key_dim, value_dim] through all rows of a slot; each of its parts
// of COLUMNS threads holds some keys' values of them. With S the state before a row:
//   u = beta (v - g S^T k),  S' = g S + k u^T,  S'^T q = g S^T q + (k . q) u
// so that S^T k, S^T q and k . q are summed together, over the keys of a part, then over the parts.
//
// qkv [rows, 2 * key_heads * key_dim + heads * value_dim], decay and beta [rows, heads], state [slots, heads, key_dim,
// value_dim], links [rows, 2] (links.comp), out [rows, heads, value_dim].
#version 450
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint COLUMNS = 32;
layout(constant_id = 2) const uint KEY_DIM = 64;

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer Qkv { float qkv[]; };
layout(std430, set = 0, binding = 2) readonly buffer Decay { float decay[]; };
layout(std430, set = 0, binding = 3) readonly buffer Beta { float beta[]; };
layout(std430, set = 0, binding = 4) buffer State { float state[]; };
layout(std430, set = 0, binding = 5) readonly buffer Links { ivec2 links[]; };
layout(std430, set = 0, binding = 6) readonly buffer Slots { int slots[]; };
layout(std430, set = 0, binding = 7) readonly buffer Positions { int positions[]; };
layout(std430, set = 0, binding = 8) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis, slot_count;
  uint key_heads, heads, value_dim;
  float scale;
};

const uint PARTS = gl_WorkGroupSize.x / COLUMNS, KEYS = (KEY_DIM + PARTS - 1) / PARTS;

shared float key[KEYS * PARTS], query[KEYS * PARTS];
shared vec2 by_key_query[PARTS * COLUMNS];  // S^T k and S^T q
shared float key_query[PARTS];              // k . q

void main() {
  const uint head = gl_WorkGroupID.y, t = gl_LocalInvocationID.x, part = t / COLUMNS;
  const uint column = gl_WorkGroupID.x * COLUMNS + t % COLUMNS;
  int row = int(gl_WorkGroupID.z);
  if (row >= live[axis] || links[row].x >= 0) return;
  const int slot = slots[row];
  if (slot < 0 || slot >= slot_count) return;
  const bool here = column < value_dim, fresh = positions[row] == 0;
  const uint width = 2 * key_heads * KEY_DIM + heads * value_dim, keys_at = key_heads * KEY_DIM;
  const uint first = (uint(slot) * heads + head) * KEY_DIM;
  float s[KEYS];
  [[unroll]] for (uint j = 0; j < KEYS; j++) {
    const uint i = part * KEYS + j;
    s[j] = here && !fresh && i < KEY_DIM ? state[(first + i) * value_dim + column] : 0.0;
  }
  while (row >= 0) {
    const uint at = uint(row) * width + head % key_heads * KEY_DIM;
    for (uint i = t; i < KEYS * PARTS; i += gl_WorkGroupSize.x) {
      query[i] = i < KEY_DIM ? qkv[at + i] : 0.0;
      key[i] = i < KEY_DIM ? qkv[at + keys_at + i] : 0.0;
    }
    barrier();
    precise float by_key = 0.0, by_query = 0.0, both = 0.0;
    [[unroll]] for (uint j = 0; j < KEYS; j++) {
      const float k = key[part * KEYS + j], q = query[part * KEYS + j];
      by_key = fma(k, s[j], by_key);
      by_query = fma(q, s[j], by_query);
      both = fma(k, q, both);
    }
    by_key_query[t] = vec2(by_key, by_query);
    if (t % COLUMNS == 0) key_query[part] = both;
    barrier();
    precise vec2 sums = by_key_query[t % COLUMNS];
    precise float kq = key_query[0];
    for (uint i = 1; i < PARTS; i++) {
      sums = sums + by_key_query[i * COLUMNS + t % COLUMNS];
      kq = kq + key_query[i];
    }
    const uint scalar = uint(row) * heads + head;
    const float g = decay[scalar];
    const float v = here ? qkv[uint(row) * width + 2 * keys_at + head * value_dim + column] : 0.0;
    precise float seen = g * sums.x, kept = g * sums.y;
    precise float u = beta[scalar] * (v - seen);
    if (part == 0 && here) result[scalar * value_dim + column] = scale * fma(kq, u, kept);
    [[unroll]] for (uint j = 0; j < KEYS; j++) {
      precise float faded = g * s[j];
      s[j] = fma(key[part * KEYS + j], u, faded);
    }
    row = links[row].y;
    barrier();
  }
  [[unroll]] for (uint j = 0; j < KEYS; j++) {
    const uint i = part * KEYS + j;
    if (here && i < KEY_DIM) state[(first + i) * value_dim + column] = s[j];
  }
}
