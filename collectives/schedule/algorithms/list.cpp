// The table of all algorithms, from list.inc.
#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

#define TOMBOLO_ALGORITHM(record) extern const Algorithm record;
#include "collectives/schedule/algorithms/list.inc"
#undef TOMBOLO_ALGORITHM

AlgorithmTable algorithms() noexcept {
  static constexpr const Algorithm* kAll[] = {
#define TOMBOLO_ALGORITHM(record) &record,
#include "collectives/schedule/algorithms/list.inc"
#undef TOMBOLO_ALGORITHM
  };
  return kAll;
}

}  // namespace tombolo::collectives
