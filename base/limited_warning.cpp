#include "base/limited_warning.h"

#include <algorithm>

namespace tombolo {

LimitedWarning::LimitedWarning(const Clock& clock, int first, Duration interval) noexcept
    : clock_(&clock), first_(first), interval_(interval), allowance_(first), refilled_(clock.now()) {}

std::optional<std::uint64_t> LimitedWarning::admit() noexcept {
  const TimePoint now = clock_->now();
  if (allowance_ == first_) refilled_ = now;
  const auto intervals = (now - refilled_) / interval_;
  refilled_ += intervals * interval_;
  allowance_ = static_cast<int>(std::min<std::int64_t>(allowance_ + intervals, first_));
  if (allowance_ == 0) {
    ++left_out_;
    return std::nullopt;
  }
  --allowance_;
  return std::exchange(left_out_, 0);
}

std::string LimitedWarning::addition(std::uint64_t left_out) {
  if (left_out == 0) return {};
  return fmt::format(" ({} more warnings like this one were left out before it)", left_out);
}

}  // namespace tombolo
