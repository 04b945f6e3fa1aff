// A long line between two switches, which bridges and token buckets cannot be: a process that carries the
// frames between two TAP devices and keeps each as long as a line of that rate, length and loss would.
#pragma once

#include <array>
#include <string>

#include "base/descriptor.h"
#include "tools/emulation/delay_line.h"

namespace tombolo::emulation {

/// A TAP device in the calling process's network namespace, gone when the last descriptor of it is closed.
/// Throws kUnsupported where that is not permitted.
Descriptor make_tap(const std::string& interface);

/// What the owner of an emulation may ask of a relay, one datagram each; each is answered by a RelayReport.
enum class RelayOrder : std::uint8_t { kReport, kCut, kRestore };

struct RelayReport {
  /// From the first segment of the link to the second, and back.
  std::array<LineCounters, 2> directions;
  /// Processor time of the relay's process so far, the kernel's part included: the receiving side of what
  /// crosses runs in it, up to the other host's socket.
  double processor_seconds = 0;
};

/// Carries frames until `orders` ends. Each direction is a line of `options`; the way back draws other
/// losses. Runs in a process of its own: one thread, no allocation that grows beyond the lines' queues.
void run_relay(const Descriptor& first, const Descriptor& second, const Descriptor& orders,
               const LineOptions& options);

}  // namespace tombolo::emulation
