// By which clock the seconds of a rank's passes were told.
#pragma once

#include <string_view>

namespace tombolo::planner {

enum class PassClock {
  kHost,    ///< of the thread that computes, or waits until the device has computed
  kDevice,  ///< the device's own, by events: calls return before it has done the work
};
/// "host", "device".
constexpr std::string_view pass_clock_name(PassClock clock) noexcept {
  return clock == PassClock::kHost ? "host" : "device";
}

}  // namespace tombolo::planner
