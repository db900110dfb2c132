// The Walsh-Hadamard transform of one block in its usual order: sums and differences of values 1, 2, 4, ... apart. Every
// value goes through the same additions on every instruction set, so bits are the same on all of them.
#include "isa_functions.h"
#include "simd.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {
namespace {

// Sums and differences of vectors `apart` apart.
void step(float *x, int64_t n, int64_t apart) {
  for (int64_t first = 0; first < n; first += 2 * apart)
    for (int64_t i = first; i < first + apart; i += kWidth) {
      const vf a = load(x + i), b = load(x + i + apart);
      store(x + i, a + b);
      store(x + i + apart, a - b);
    }
}

// The steps within vectors, kWidth of which are turned at a time so that neighbours come to lie in different ones.
void within(float *x, int64_t n) {
  for (int64_t at = 0; at < n; at += kWidth * kWidth) {
    vf rows[kWidth];
    for (int i = 0; i < kWidth; i++) rows[i] = load(x + at + i * kWidth);
    transpose(rows);
    for (int apart = 1; apart < kWidth; apart *= 2)
      for (int first = 0; first < kWidth; first += 2 * apart)
        for (int i = first; i < first + apart; i++) {
          const vf a = rows[i], b = rows[i + apart];
          rows[i] = a + b;
          rows[i + apart] = a - b;
        }
    transpose(rows);
    for (int i = 0; i < kWidth; i++) store(x + at + i * kWidth, rows[i]);
  }
}

}  // namespace

void hadamard(float *x, int64_t n, float by) {
  int64_t apart = 1;
  if (n >= kWidth * kWidth) {
    within(x, n);
    apart = kWidth;
  }
  for (; apart < n && apart < kWidth; apart *= 2)
    for (int64_t first = 0; first < n; first += 2 * apart)
      for (int64_t i = first; i < first + apart; i++) {
        const float a = x[i], b = x[i + apart];
        x[i] = a + b;
        x[i + apart] = a - b;
      }
  for (; apart < n; apart *= 2) step(x, n, apart);
  scale(x, x, by, n);
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
