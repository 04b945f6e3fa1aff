// Signals that ask a program to come to an orderly end.
#pragma once

#include "base/clock.h"

namespace tombolo::tools {

/// Schedulers and launchers repeat a signal at once, or send it to the group and to each process of it: what
/// comes within this time of the first is a repetition.
inline constexpr Duration kRepeatedSignal = std::chrono::seconds(1);

/// From now on SIGINT, SIGTERM, SIGHUP and SIGUSR1 are requests to stop, but for those that the process
/// ignores. Of the first three, one that comes later than `repeated` after the first of them has its default
/// effect, which ends the process. SIGUSR1 is a scheduler's warning, and ends nothing. To be called once,
/// before other threads run.
void catch_stop_requests(Duration repeated = kRepeatedSignal) noexcept;

/// Whether one has come. Any thread.
bool stop_requested() noexcept;

}  // namespace tombolo::tools
