// Element by element: sums, products, the soft cap, weighted sums. Results do not depend on alignment or length.
#include "isa_functions.h"
#include "simd.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {

void add(float *out, const float *a, const float *b, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = a[i] + b[i];
}

void mul(float *out, const float *a, const float *b, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = a[i] * b[i];
}

void scale(float *out, const float *x, float by, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = x[i] * by;
}

void softcap(float *out, const float *x, float cap, int64_t n) {
  const vf c = set1(cap);
  for (int64_t i = 0; i < n; i += kWidth) store_part(out + i, c * tanh(load_part(x + i, n - i) / c), n - i);
}

void mix(float *out, const float *y, const golem_route *routes, int64_t used, int64_t n) {
  for (int64_t i = 0; i < n; i += kWidth) {
    vf sum = set1(routes[0].weight) * load_part(y + i, n - i);
    for (int64_t j = 1; j < used; j++) sum = sum + set1(routes[j].weight) * load_part(y + j * n + i, n - i);
    store_part(out + i, sum, n - i);
  }
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
