// Replays passes that a test sends on stdin, and answers with the buffers they have worked on: so kernels of another
// processor are tested under an emulator (tests/kernel_replay.py is the other end). All numbers are int64, little-endian.
//
//   first line out  golem_isa()
//   pass            threads, commands, live counts, buffers; live[]; address and bytes of every buffer; the buffers;
//                   golem_cmd[], with a pointer given as (buffer + 1) << 40 | offset, 0 for NULL
//   its answer      what golem_run returned, failed_at; the buffers
//   question        0, ggml type, m, k: golem_laid_bytes
//                   -1, n, k, 0, x float32[n]: golem_top_k, int32 index[k], float32 value[k]
//
// A buffer ends just before a page that nobody may touch, as near as it can while its place in a line of 64 bytes is that
// of its address.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "golem_kernels.h"

namespace {

[[noreturn]] void fail(const char *what) {
  fprintf(stderr, "replay: %s\n", what);
  exit(1);
}

void get(void *to, size_t bytes) {
  if (fread(to, 1, bytes, stdin) != bytes) fail("the request ends early");
}

void put(const void *from, size_t bytes) {
  if (fwrite(from, 1, bytes, stdout) != bytes) fail("cannot answer");
}

constexpr size_t kLine = 64;

struct Place {
  int64_t address, bytes;
};

class Buffer {
 public:
  explicit Buffer(const Place &place) : bytes_(static_cast<size_t>(place.bytes)) {
    const size_t end = static_cast<size_t>(place.address + place.bytes), slack = (kLine - end % kLine) % kLine;
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), used = (bytes_ + slack + page - 1) / page * page;
    mapped_ = used + page;
    memory_ = static_cast<uint8_t *>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory_ == MAP_FAILED || mprotect(memory_ + used, page, PROT_NONE) != 0) fail("out of memory");
    start_ = memory_ + used - slack - bytes_;
  }
  ~Buffer() { munmap(memory_, mapped_); }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;

  uint8_t *data() const { return start_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_, mapped_;
  uint8_t *memory_, *start_;
};

struct Pass {
  int64_t threads, cmds, live, buffers;
};

void replay(const Pass &pass) {
  std::vector<int64_t> live(static_cast<size_t>(pass.live));
  std::vector<Place> places(static_cast<size_t>(pass.buffers));
  std::vector<golem_cmd> cmds(static_cast<size_t>(pass.cmds));
  get(live.data(), live.size() * sizeof(int64_t));
  get(places.data(), places.size() * sizeof(Place));
  std::vector<Buffer *> buffers;
  for (const Place &place : places) {
    buffers.push_back(new Buffer(place));
    get(buffers.back()->data(), buffers.back()->bytes());
  }
  get(cmds.data(), cmds.size() * sizeof(golem_cmd));
  for (golem_cmd &cmd : cmds) {
    for (void *&p : cmd.p) {
      const uint64_t place = reinterpret_cast<uint64_t>(p), offset = place & ((uint64_t{1} << 40) - 1);
      if (place != 0) p = buffers.at((place >> 40) - 1)->data() + offset;
    }
  }
  golem_pool *pool = golem_pool_new(static_cast<int>(pass.threads));
  if (pool == nullptr) fail("no pool");
  int64_t result[2];
  result[0] = golem_run(pool, cmds.data(), pass.cmds, pass.live > 0 ? live.data() : nullptr, &result[1]);
  golem_pool_free(pool);
  put(result, sizeof result);
  for (const Buffer *buffer : buffers) {
    put(buffer->data(), buffer->bytes());
    delete buffer;
  }
}

void k_largest(int64_t n, int64_t k) {
  const Buffer x({0, n * 4}), index({0, k * 4}), value({0, k * 4});
  get(x.data(), x.bytes());
  const int64_t code = golem_top_k(reinterpret_cast<const float *>(x.data()), nullptr, n, k, reinterpret_cast<int32_t *>(index.data()),
                                   reinterpret_cast<float *>(value.data()));
  put(&code, sizeof code);
  put(index.data(), index.bytes());
  put(value.data(), value.bytes());
}

}  // namespace

int main() {
  puts(golem_isa());
  fflush(stdout);
  int64_t request[4];
  while (fread(request, sizeof request, 1, stdin) == 1) {
    if (request[0] > 0) {
      replay({request[0], request[1], request[2], request[3]});
    } else if (request[0] == 0) {
      const int64_t bytes = golem_laid_bytes(static_cast<int>(request[1]), request[2], request[3]);
      put(&bytes, sizeof bytes);
    } else {
      k_largest(request[1], request[2]);
    }
    fflush(stdout);
  }
}
