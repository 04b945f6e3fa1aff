// Sizes that decide between algorithms and cut transfers into pieces.
#pragma once

#include <cstddef>

namespace tombolo::collectives {

/// Must be the same on every rank; set-up checks that.
struct Tuning {
  /// Bytes per piece of a pipelined transfer (TOMBOLO_SEGMENT).
  std::size_t segment_bytes = std::size_t{512} << 10;
  /// Vectors of at most so many bytes (those of all ranks' parts together) are moved in few steps instead of
  /// few bytes. At 8 KiB a TCP message costs about as much in system calls as in bytes.
  std::size_t small_bytes = std::size_t{16} << 10;
};

}  // namespace tombolo::collectives
