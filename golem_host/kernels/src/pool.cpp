#include "pool.h"

#include <chrono>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace golem {
namespace {

// Long enough to bridge the small commands between two shared ones.
constexpr std::chrono::microseconds kSpin{40};

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until ready() or the time is up; says whether it is ready. It offers its core every microsecond or so: where
// programs outnumber cores, the thread it waits for may be queued behind it.
template <class Ready>
bool spin(Ready ready) {
  const auto until = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; i++) {
      if (ready()) return true;
      pause();
    }
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

}  // namespace

Pool::Pool(int threads) {
  try {
    for (int i = 1; i < threads; i++) workers_.emplace_back([this] { work(); });
  } catch (...) {
    // a half-built pool has no destructor call: stop what started
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    job_posted_.notify_all();
    for (auto &worker : workers_) worker.join();
    throw;
  }
}

Pool::~Pool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  job_posted_.notify_all();
  for (auto &worker : workers_) worker.join();
}

void Pool::share(int64_t chunks, Call call, void *context) {
  call_ = call;
  context_ = context;
  chunks_ = chunks;
  done_.store(0);
  const uint64_t job = (ticket_.load() >> 32) + 1;
  ticket_.store(job << 32 | static_cast<uint64_t>(chunks));
  if (sleepers_.load() > 0) {
    { std::lock_guard<std::mutex> lock(mutex_); }  // a worker between its look and its wait holds the mutex
    job_posted_.notify_all();
  }
  claim_all();
  wait_for_done();
}

void Pool::claim_all() {
  uint64_t ticket = ticket_.load();
  while ((ticket & 0xffffffffu) != 0) {
    if (!ticket_.compare_exchange_weak(ticket, ticket - 1)) continue;
    const int64_t chunks = chunks_;
    call_(context_, chunks - static_cast<int64_t>(ticket & 0xffffffffu));
    if (done_.fetch_add(1) + 1 == chunks && caller_sleeps_.load()) {
      { std::lock_guard<std::mutex> lock(mutex_); }
      job_done_.notify_one();
    }
    ticket = ticket_.load();
  }
}

void Pool::wait_for_done() {
  const auto done = [this] { return done_.load() == chunks_; };
  if (spin(done)) return;
  std::unique_lock<std::mutex> lock(mutex_);
  caller_sleeps_ = true;
  job_done_.wait(lock, done);
  caller_sleeps_ = false;
}

bool Pool::wait_for_job() {
  if (spin([this] { return has_chunk() || stop_.load(); })) return !stop_.load();
  std::unique_lock<std::mutex> lock(mutex_);
  sleepers_++;
  job_posted_.wait(lock, [this] { return has_chunk() || stop_.load(); });
  sleepers_--;
  return !stop_.load();
}

void Pool::work() {
  while (wait_for_job()) claim_all();
}

}  // namespace golem
