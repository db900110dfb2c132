// Memory of one thread (declare it thread_local): it grows, and goes with the thread.
#pragma once
#include <cstdint>
#include <cstdlib>

namespace golem {

template <class T>
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;
  ~Scratch() { std::free(values_); }

  // `wanted` values, whose former content may be lost; nullptr when memory is short.
  T *of(int64_t wanted) {
    if (wanted > size_) {
      std::free(values_);
      values_ = static_cast<T *>(std::malloc(static_cast<size_t>(wanted) * sizeof(T)));
      size_ = values_ == nullptr ? 0 : wanted;
    }
    return values_;
  }

 private:
  T *values_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace golem
