#include "sequences.h"

#include <cstddef>
#include <new>

#include "golem_kernels.h"

namespace golem {

int Sequences::group(const int32_t *slot, const int32_t *position, int64_t rows, const int32_t *taken, int64_t slots) {
  try {
    sequences_.clear();
    next_.clear();
    of_slot_.assign(static_cast<size_t>(slots), -1);
    order_.resize(static_cast<size_t>(rows));
    for (int64_t r = 0; r < rows; r++) {
      if (slot[r] < 0 || slot[r] >= slots) return GOLEM_E_SLOT;
      if (position[r] < 0 || position[r] == INT32_MAX) return GOLEM_E_POSITION;
      int32_t &at = of_slot_[static_cast<size_t>(slot[r])];
      if (at < 0) {
        if (position[r] != 0 && position[r] != taken[slot[r]]) return GOLEM_E_POSITION;
        at = static_cast<int32_t>(sequences_.size());
        sequences_.push_back({slot[r], 0, 0, position[r] == 0});
        next_.push_back(position[r]);
      }
      if (position[r] != next_[static_cast<size_t>(at)]++) return GOLEM_E_POSITION;
      sequences_[static_cast<size_t>(at)].count++;
    }
  } catch (const std::bad_alloc &) {
    return GOLEM_E_MEMORY;
  }
  int64_t first = 0;
  for (Sequence &each : sequences_) {
    each.first = first;
    first += each.count;
    each.count = 0;
  }
  for (int64_t r = 0; r < rows; r++) {
    Sequence &mine = sequences_[static_cast<size_t>(of_slot_[static_cast<size_t>(slot[r])])];
    order_[static_cast<size_t>(mine.first + mine.count++)] = r;
  }
  return GOLEM_OK;
}

void Sequences::advance(int32_t *taken) const {
  for (size_t at = 0; at < sequences_.size(); at++) taken[sequences_[at].slot] = next_[at];
}

}  // namespace golem
