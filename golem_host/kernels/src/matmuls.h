// Products that run at the same time: one job of the pool for all of them.
#pragma once
#include "command.h"

namespace golem {

class Matmuls {
 public:
  static constexpr int kMost = 8;

  explicit Matmuls(Pool &pool) : pool_(pool) {}
  int add(const Command &c);  // checks it; a golem_error. At most kMost.
  void run();

 private:
  void spread_inputs();

  struct Part {
    Product product;
    ProductFn fn;
    int64_t begin, end;  // outputs
    int64_t align;
    bool floats;    // inputs are not quantized
    double row_ns;  // about how long an output takes one thread
  };
  Pool &pool_;
  Part parts_[kMost];
  int count_ = 0;
};

}  // namespace golem
