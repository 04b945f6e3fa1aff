// How many streams a connection has over a path: decided from the path's figures at first, then from the
// rates that the streams attain. Pure functions of measurements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "transport/bootstrap/handshake.h"

namespace tombolo::transport::tcp {

/// What is known of a path before the first byte of payload.
struct PathFigures {
  Duration length{};            ///< shortest round trip
  double bytes_per_second = 0;  ///< that both NICs promise; 0 = unknown
  std::size_t window = 0;       ///< bytes that one stream can have under way; 0 = unknown
};
/// How many streams to begin with: on long paths at least kStreamsOnLongPaths; on all, as many as it takes
/// for their windows to hold twice what is under way on the path, up to eight.
int streams_to_begin(const PathFigures& path) noexcept;

/// Bytes that one stream can have under way with a send buffer and a receive buffer that grow to these limits
/// (the last numbers of tcp_wmem and tcp_rmem): half of a receive buffer is for the kernel's own needs.
std::size_t window_of(std::size_t send_limit, std::size_t receive_limit) noexcept;
/// window_of() by this host's limits, assuming that the peer's are alike; 0 where they cannot be read.
std::size_t window_of_this_host() noexcept;

/// What the streams of one path did between two looks.
struct PathLook {
  Duration time{};                       ///< since the last look
  std::uint64_t bytes = 0;               ///< acknowledged by the peer's kernel since then
  std::size_t streams = 0;               ///< live ones
  std::size_t missing = 0;               ///< wanted, and not there
  std::size_t busy = 0;                  ///< live ones that had bytes under way most of the time
  std::size_t held_back = 0;             ///< of these, those that mostly lacked window or buffer
  std::uint64_t sent = 0, repeated = 0;  ///< segments since the last look, and those of them sent before
  Duration round_trip{};                 ///< now, smoothed; the mean of all streams
  Duration length{};                     ///< shortest round trip
  double bytes_per_second = 0;           ///< that both NICs promise; 0 = unknown
};

/// Adds streams to one path while they are held back by their windows, or by losses without a queue, and as
/// long as additions raise the rate. It never removes a stream, so that the number cannot oscillate; it has
/// converged after two additions in a row that did not raise the rate.
class PathControl {
 public:
  /// It never goes beyond `most` streams.
  explicit PathControl(std::size_t most = bootstrap::Hello::kMostStreams) noexcept : most_(most) {}

  /// Takes a measurement; returns how many streams to add now.
  std::size_t decide(const PathLook& look) noexcept;
  bool converged() const noexcept { return futile_ == kMostFutile; }

 private:
  static constexpr unsigned kMostFutile = 2;
  void begin_period() noexcept;

  std::size_t most_;
  // Sums over the present period, which consists of the looks in which streams were busy.
  Duration time_{}, held_time_{}, round_trips_{};
  std::uint64_t bytes_ = 0, sent_ = 0, repeated_ = 0;
  std::size_t streams_ = 0;
  // the first period after an addition does not count, because the new streams are still speeding up
  bool skip_ = true;
  double before_ = 0;  // the rate before the latest addition; 0 = there is none to judge
  unsigned futile_ = 0;
};

}  // namespace tombolo::transport::tcp
