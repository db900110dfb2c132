// The rows of a pass by slot: each slot's rows, in the order of their positions, carry its recurrent state on.
#pragma once
#include <cstdint>
#include <vector>

namespace golem {

struct Sequence {
  int64_t slot;
  int64_t first, count;  // in rows()
  bool fresh;            // starts at position 0, from a state of zeros
};

class Sequences {
 public:
  // Groups the rows. GOLEM_E_SLOT; GOLEM_E_POSITION where a slot's rows do not go on at the position after those its
  // state has taken, or at 0, and then one by one; GOLEM_E_MEMORY.
  int group(const int32_t *slot, const int32_t *position, int64_t rows, const int32_t *taken, int64_t slots);

  const std::vector<Sequence> &all() const { return sequences_; }
  const int64_t *rows(const Sequence &sequence) const { return order_.data() + sequence.first; }

  // Notes in taken[slots] that the states have taken these rows.
  void advance(int32_t *taken) const;

 private:
  std::vector<Sequence> sequences_;
  std::vector<int64_t> order_;
  std::vector<int32_t> of_slot_;  // each slot's sequence, or -1
  std::vector<int32_t> next_;     // each sequence's next position
};

}  // namespace golem
