// The relay of an emulated long line between two switches. Bridges and token buckets neither delay nor lose
// packets; this process carries the frames between two TAP devices, and delays or drops each as a line of
// that rate, length and loss would.
#pragma once

#include <array>
#include <string>

#include "base/descriptor.h"
#include "tools/emulation/delay_line.h"

namespace tombolo::emulation {

/// Makes a TAP device in the calling process's network namespace. It is removed when its last descriptor is
/// closed. Throws kUnsupported where that is not permitted.
Descriptor make_tap(const std::string& interface);

/// An order from the owner of an emulation to a relay, one datagram each. The relay answers each with a
/// RelayReport.
enum class RelayOrder : std::uint8_t { kReport, kCut, kRestore };

struct RelayReport {
  /// Counters of the direction from the first segment of the link to the second, and of the opposite one.
  std::array<LineCounters, 2> directions;
  /// Processor time that the relay's process has used so far. It includes the kernel's part: the receiving
  /// side of the network stack, up to the other host's socket, runs in this process.
  double processor_seconds = 0;
};

/// Carries frames until the other end of `orders` is closed. Each direction is a line of `options`, with
/// random losses of its own, and that from the second to the first has a rate of its own. Must run in a
/// process of its own. It uses one thread, and allocates no more than the queues of the lines.
void run_relay(const Descriptor& first, const Descriptor& second, const Descriptor& orders,
               const LineOptions& options, double bits_per_second_back);

}  // namespace tombolo::emulation
