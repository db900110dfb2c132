// A thread pool whose caller works too: chunks are claimed one by one by whoever is running.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace golem {

class Pool {
 public:
  explicit Pool(int threads);  // threads include the caller of run; throws std::system_error
  ~Pool();                     // joins
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls fn(0), ..., fn(chunks - 1), each once, on the caller and the workers; returns when all are done.
  // One caller at a time.
  template <class Fn>
  void run(int64_t chunks, Fn &&fn) {
    if (chunks <= 1 || workers_.empty()) {
      for (int64_t c = 0; c < chunks; c++) fn(c);
      return;
    }
    share(chunks, [](void *context, int64_t chunk) { (*static_cast<Fn *>(context))(chunk); }, &fn);
  }

 private:
  using Call = void (*)(void *context, int64_t chunk);

  void share(int64_t chunks, Call call, void *context);
  void work();
  void claim_all();
  bool wait_for_job();
  void wait_for_done();
  bool has_chunk() const { return (ticket_.load() & 0xffffffffu) != 0; }

  // The job: written only while no chunk can be claimed, read only by who holds a chunk.
  Call call_ = nullptr;
  void *context_ = nullptr;
  int64_t chunks_ = 0;

  // High half: job number; low half: chunks not yet claimed. One word, so that a late worker cannot claim
  // a chunk of a job other than the one it looked at.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<int64_t> done_{0};

  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<bool> stop_{false};

  std::mutex mutex_;
  std::condition_variable job_posted_, job_done_;
  std::vector<std::thread> workers_;
};

}  // namespace golem
