// Which instruction set this process uses.
#include <cstdlib>
#include <cstring>

#if defined(GOLEM_X86)
#include <cpuid.h>
#endif

#if defined(GOLEM_ARM64) && defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(GOLEM_ARM64) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "golem_kernels.h"
#include "kernels.h"

namespace golem {

namespace generic { void fill(Kernels &table); }
#if defined(GOLEM_X86)
namespace avx2 { void fill(Kernels &table); }
namespace avx512 { void fill(Kernels &table); }
#if defined(GOLEM_AVX512_BF16)
namespace avx512_bf16 {
void fill_floats(Kernels &table);
void fill_text(Kernels &table);
}
#endif
#elif defined(GOLEM_ARM64)
namespace neon { void fill(Kernels &table); }
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

#if defined(GOLEM_AVX512_BF16)
bool has_avx512_bf16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return has_avx512() && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1u << 5) != 0;
}
#endif
#elif defined(GOLEM_ARM64)
bool has_dot_product() {
#if defined(__APPLE__)
  int has = 0;
  size_t size = sizeof has;
  return sysctlbyname("hw.optional.arm.FEAT_DotProd", &has, &size, nullptr, 0) == 0 && has != 0;
#elif defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
  return false;
#endif
}
#endif

Kernels choose() {
  Kernels table{};
#if defined(GOLEM_X86) || defined(GOLEM_ARM64)
  const char *wanted = getenv("GOLEM_ISA");
  const auto allows = [&](const char *name) { return wanted == nullptr || *wanted == 0 || strcmp(wanted, name) == 0; };
#endif
#if defined(GOLEM_X86)
  __builtin_cpu_init();
#if defined(GOLEM_AVX512_BF16)
  if (has_avx512_bf16() && allows("avx512-bf16")) {
    avx512::fill(table);
    avx512_bf16::fill_floats(table);
    avx512_bf16::fill_text(table);
    table.name = "avx512-bf16";
    return table;
  }
#endif
  if (has_avx512() && allows("avx512-vnni")) {
    avx512::fill(table);
    return table;
  }
  if (has_avx2() && allows("avx2")) {
    avx2::fill(table);
    return table;
  }
#elif defined(GOLEM_ARM64)
  if (has_dot_product() && allows("neon")) {
    neon::fill(table);
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
