// Hammers thread pools: every chunk of every job runs once, what a job writes is there when it ends, pools come and go.
// Meant for ThreadSanitizer, which checks the order of every access; wrong results end the program by themselves.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "golem_kernels.h"
#include "pool.h"

namespace {

using std::chrono::microseconds;

void check(bool ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "pool_stress: %s\n", what);
  exit(1);
}

void work_for(microseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) {
  }
}

// One job whose chunks take `time` each: every chunk writes its own place, from an input that the caller has just written.
void job(golem::Pool &pool, int64_t chunks, int64_t number, microseconds time) {
  std::vector<int64_t> in(static_cast<size_t>(chunks), number), out(static_cast<size_t>(chunks), 0);
  pool.run(chunks, [&](int64_t c) {
    if (time.count() > 0) work_for(time);
    out[static_cast<size_t>(c)] += in[static_cast<size_t>(c)] + c;
  });
  for (int64_t c = 0; c < chunks; c++) check(out[static_cast<size_t>(c)] == number + c, "a chunk did not run exactly once");
}

// Short jobs back to back, long ones for which the caller sleeps, and pauses after which the workers do.
void jobs(int threads) {
  golem::Pool pool(threads);
  check(pool.threads() == threads, "a pool of another size");
  const int64_t sizes[] = {0, 1, 2, 3, 8, 61};
  int64_t number = 0;
  for (int round = 0; round < 200; round++) {
    for (const int64_t chunks : sizes) job(pool, chunks, ++number, microseconds(0));
    if (round % 10 == 5) std::this_thread::sleep_for(microseconds(500));
    if (round % 10 == 9) job(pool, 2 * threads, ++number, microseconds(300));
  }
}

// Pools that end before, while and after their workers first look for a job.
void short_lives() {
  for (int life = 0; life < 60; life++) {
    golem::Pool pool(1 + life % 8);
    if (life % 3 != 0) job(pool, 5, life, microseconds(0));
    if (life % 3 == 2) std::this_thread::sleep_for(microseconds(200));
  }
}

// A pass of two commands that are long enough to be shared; false where the pool was busy.
bool pass(golem_pool *pool, std::vector<float> &x, std::vector<float> &middle, std::vector<float> &out) {
  const int64_t rows = 64, n = static_cast<int64_t>(x.size()) / rows;
  golem_cmd cmds[2] = {};
  cmds[0].op = GOLEM_OP_ADD;
  cmds[0].p[0] = middle.data();
  cmds[0].p[1] = cmds[0].p[2] = x.data();
  cmds[1].op = GOLEM_OP_SCALE;
  cmds[1].p[0] = out.data();
  cmds[1].p[1] = middle.data();
  cmds[1].f[0] = 2;
  for (golem_cmd &cmd : cmds) {
    cmd.axis = -1;
    cmd.rows = rows;
    cmd.i[0] = n;
  }
  int64_t failed_at;
  const int error = golem_run(pool, cmds, 2, nullptr, &failed_at);
  check(error == GOLEM_OK || error == GOLEM_E_BUSY, "a pass failed");
  return error == GOLEM_OK;
}

// Passes on one pool from one caller, or from several at once: then some are refused, and none is wrong.
void passes(int threads, int callers) {
  golem_pool *pool = golem_pool_new(threads);
  check(pool != nullptr, "no pool");
  std::vector<std::thread> others;
  const auto caller = [&] {
    std::vector<float> x(64 * 1024), middle(x.size()), out(x.size());
    for (int round = 1; round <= 20; round++) {
      for (float &value : x) value = static_cast<float>(round);
      if (!pass(pool, x, middle, out)) {
        check(callers > 1, "busy with one caller");
        continue;
      }
      for (const float value : out) check(value == static_cast<float>(4 * round), "a wrong result");
    }
  };
  for (int i = 1; i < callers; i++) others.emplace_back(caller);
  caller();
  for (auto &other : others) other.join();
  golem_pool_free(pool);
}

}  // namespace

int main() {
  for (int threads = 1; threads <= 8; threads++) {
    jobs(threads);
    passes(threads, 1);
  }
  short_lives();
  passes(3, 4);
  std::vector<std::thread> side_by_side;
  for (int i = 0; i < 3; i++) side_by_side.emplace_back([] { jobs(3); });
  for (auto &thread : side_by_side) thread.join();
  puts("pool_stress: all jobs done");
}
