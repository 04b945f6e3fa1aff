// Sizes that decide between algorithms and cut transfers into pieces.
#pragma once

#include <cstddef>

namespace tombolo::collectives {

/// Must be the same on every rank; set-up checks that.
struct Tuning {
  /// Bytes per piece of a pipelined transfer (TOMBOLO_SEGMENT).
  std::size_t segment_bytes = std::size_t{512} << 10;
  /// Vectors of at most so many bytes (those of all ranks' parts together) are moved in few steps instead of
  /// few bytes. Between clusters what all members of one get alike counts for each of them. At 8 KiB a TCP
  /// message costs about as much in system calls as in bytes.
  std::size_t small_bytes = std::size_t{16} << 10;
  /// Reductions of at most so many bytes (one rank's), and all calls that only copy, go through memory that
  /// all ranks see, where all are on one host; 0: none (TOMBOLO_HOST_LIMIT). Of 4 MiB and no limit, with two,
  /// four and eight ranks on two processors (Intel Xeon, family 6, model 207) that other programs used as
  /// well, copies of 16 and 64 MiB took 0.4 to 0.9 of the time without one, and sums of 64 MiB up to three
  /// times as long: their ranks wait for each other in every round, which those of messages need not. With
  /// two ranks on two processors without other programs (AMD EPYC, family 25, model 17) all-reduces of 16 and
  /// 64 MiB took 1.15 times as long.
  std::size_t host_bytes = std::size_t{4} << 20;
  /// Bytes that are on their way between two ranks of different clusters while their link is full: its rate
  /// times its latency, by the cost model. 0: few.
  std::size_t crossing_bytes = 0;
  /// The same where rate and latency are known, else 0: fewer bytes than these cross in less time than what
  /// saves a latency for them.
  std::size_t latency_bytes = 0;
};

/// Tuning::host_bytes where ranks share processors, so that those of messages wait for each other, too: with
/// four and eight ranks on two processors (the EPYC above) sums of 16 and 64 MiB took 0.5 to 0.8 of the time
/// of messages.
inline constexpr std::size_t kHostBytesOnSharedProcessors = std::size_t{64} << 20;

/// Tuning::crossing_bytes where nobody knows better: 10 Gbit/s for 10 ms. Too many cost each rank memory, too
/// few leave a long link idle.
inline constexpr std::size_t kCrossingBytesOfLongLinks = 12'500'000;

}  // namespace tombolo::collectives
