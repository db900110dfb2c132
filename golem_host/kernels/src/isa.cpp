// Which instruction set this process uses.
#include <cstdlib>
#include <cstring>

#include "golem_kernels.h"
#include "kernels.h"

namespace golem {

namespace generic { void fill(Kernels &table); }
#if defined(GOLEM_X86)
namespace avx2 { void fill(Kernels &table); }
namespace avx512 { void fill(Kernels &table); }
#endif

namespace {

#if defined(GOLEM_X86)
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}
#endif

Kernels choose() {
  Kernels table{};
#if defined(GOLEM_X86)
  const char *wanted = getenv("GOLEM_ISA");
  const auto allows = [&](const char *name) { return wanted == nullptr || *wanted == 0 || strcmp(wanted, name) == 0; };
  __builtin_cpu_init();
  if (has_avx512() && allows("avx512-vnni")) {
    avx512::fill(table);
    return table;
  }
  if (has_avx2() && allows("avx2")) {
    avx2::fill(table);
    return table;
  }
#endif
  generic::fill(table);
  return table;
}

}  // namespace

const Kernels &kernels() {
  static const Kernels table = choose();
  return table;
}

}  // namespace golem

const char *golem_isa(void) { return golem::kernels().name; }
