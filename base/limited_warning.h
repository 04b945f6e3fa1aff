// Warnings that strangers can cause as often as they like must not fill the log.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace tombolo {

/// One kind of warning. The first few are logged at once; after that one is logged per interval, with the
/// number of those that were left out before it. After a quiet while the first few are free again. Not
/// thread-safe.
class LimitedWarning {
 public:
  static constexpr int kFirst = 5;
  static constexpr Duration kInterval = std::chrono::seconds(10);

  /// `first`: how many may be logged at once. The clock must outlive this.
  explicit LimitedWarning(const Clock& clock = Clock::steady(), int first = kFirst,
                          Duration interval = kInterval) noexcept;

  template <typename... Args>
  void write(const Log& log, fmt::format_string<Args...> text, Args&&... args) {
    if (!log.enabled(LogLevel::kWarning)) return;
    if (const auto left_out = admit())
      log.warning("{}{}", fmt::format(text, std::forward<Args>(args)...), addition(*left_out));
  }

  /// Whether a line may be logged now; if so, how many were left out since the last one.
  std::optional<std::uint64_t> admit() noexcept;

 private:
  static std::string addition(std::uint64_t left_out);

  const Clock* clock_;
  int first_;
  Duration interval_;
  int allowance_;
  TimePoint refilled_;  // when the allowance last grew, or would have
  std::uint64_t left_out_ = 0;
};

}  // namespace tombolo
