#include "base/clock.h"

#include <algorithm>
#include <limits>

namespace tombolo {
namespace {

class SteadyClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return std::chrono::steady_clock::now(); }
};

}  // namespace

const Clock& Clock::steady() noexcept {
  static const SteadyClock clock;
  return clock;
}

int Deadline::poll_milliseconds() const noexcept {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(remaining()).count();
  return static_cast<int>(std::min<long long>(left, std::numeric_limits<int>::max()));
}

}  // namespace tombolo
