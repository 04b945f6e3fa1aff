// Sizes that decide between algorithms and cut transfers into pieces.
#pragma once

#include <cstddef>

namespace tombolo::collectives {

/// The same on every rank (set-up checks it).
struct Tuning {
  /// Bytes per piece of a pipelined transfer (TOMBOLO_SEGMENT).
  std::size_t segment_bytes = std::size_t{512} << 10;
  /// Up to so many bytes (of the whole vector) a collective goes for few steps instead of few bytes. At 8 KiB
  /// a TCP message costs about as much in system calls as in bytes.
  std::size_t small_bytes = std::size_t{16} << 10;
};

}  // namespace tombolo::collectives
