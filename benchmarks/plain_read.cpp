// How fast two threads read memory: plain_read MIB THREADS PASSES ordinary|huge
//
// Prints GB/s of each pass over MIB mebibytes of private memory, then how many MiB of it lay in huge pages.

#include <sys/mman.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

typedef uint64_t Vector __attribute__((vector_size(64)));

constexpr size_t ALIGNMENT = size_t(1) << 21;

uint64_t read(const char *data, size_t bytes) {
    Vector sums[4] = {};
    for (size_t at = 0; at < bytes; at += sizeof sums) {
        const Vector *from = reinterpret_cast<const Vector *>(data + at);
        for (int i = 0; i < 4; i++) sums[i] += from[i];
    }
    Vector all = sums[0] + sums[1] + sums[2] + sums[3];
    return all[0] + all[1] + all[2] + all[3] + all[4] + all[5] + all[6] + all[7];
}

double huge_mib() {
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    double kib = 0;
    while (file && fgets(line, sizeof line, file)) sscanf(line, "AnonHugePages: %lf", &kib);
    if (file) fclose(file);
    return kib / 1024;
}

}  // namespace

int main(int count, char **words) {
    if (count != 5) return 2;
    const size_t bytes = size_t(atol(words[1])) << 20;
    const int threads = atoi(words[2]), passes = atoi(words[3]);
    const bool huge = !strcmp(words[4], "huge");
    void *mapped = mmap(nullptr, bytes + ALIGNMENT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return 1;
    char *data = reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(mapped) + ALIGNMENT - 1) & ~(ALIGNMENT - 1));
    madvise(data, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset(data, 1, bytes);
    std::vector<uint64_t> sums(threads);
    for (int pass = 0; pass < passes; pass++) {
        const auto started = std::chrono::steady_clock::now();
        std::vector<std::thread> readers;
        for (int t = 0; t < threads; t++) {
            const size_t share = bytes / threads / 4096 * 4096;
            readers.emplace_back([&, t, share] { sums[t] += read(data + t * share, share); });
        }
        for (auto &reader : readers) reader.join();
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
        printf("%.3f\n", double(bytes) / seconds / 1e9);
    }
    printf("%.0f\n", huge_mib());
    return sums[0] == 0;
}
