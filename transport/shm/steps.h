// The moments between two accesses to memory that both ends of a connection use.
#pragma once

#include <utility>

namespace tombolo::transport::shm {

/// What happens at such moments. Outside of tests that is nothing.
class Steps {
 public:
  virtual ~Steps() = default;
  /// Called between two accesses: the other end may go on here, and this end may end.
  virtual void between_accesses() noexcept = 0;
};

namespace detail {
inline Steps* current_steps = nullptr;
}

/// Stands in the code of this folder wherever what the other end does meanwhile makes a difference.
inline void step() noexcept {
  if (detail::current_steps != nullptr) [[unlikely]]
    detail::current_steps->between_accesses();
}

/// Puts them in place for as long as it lives. Only for tests, while no connection exists in another thread.
class StepsInPlace {
 public:
  explicit StepsInPlace(Steps& steps) noexcept : before_(std::exchange(detail::current_steps, &steps)) {}
  ~StepsInPlace() { detail::current_steps = before_; }
  StepsInPlace(const StepsInPlace&) = delete;
  StepsInPlace& operator=(const StepsInPlace&) = delete;

 private:
  Steps* before_;
};

}  // namespace tombolo::transport::shm
