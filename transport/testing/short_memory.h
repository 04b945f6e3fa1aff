// For tests: a thread for which operator new has nothing. A test program has that operator where one of its
// sources includes failing_operator_new.h; where a sanitizer has its own, memory is never short.
#pragma once

#include <climits>

namespace tombolo::transport::test {

/// How many more calls of operator new in this thread are to fail.
inline thread_local constinit int allocations_to_fail = 0;

/// The next allocations of this thread fail, as long as this lives: so many, or all of them.
class ShortMemory {
 public:
  explicit ShortMemory(int allocations = INT_MAX) noexcept { allocations_to_fail = allocations; }
  ~ShortMemory() { allocations_to_fail = 0; }
  ShortMemory(const ShortMemory&) = delete;
  ShortMemory& operator=(const ShortMemory&) = delete;
};

}  // namespace tombolo::transport::test
