// The transfer that faults are made under: messages of random sizes over several connections, in both
// directions, until it is told to stop. The receiver knows every byte that it must get.
#pragma once

#include <cstdint>
#include <string>

#include "tests/faults/board.h"
#include "transport/routing/router.h"

namespace tombolo::faults {

struct FlowOptions {
  std::uint64_t seed = 1;
  std::size_t connections = 2;  ///< at most kMostConnections
  std::size_t largest = 4 << 20;
  transport::RouterOptions router;
  /// True: the listener is kept, and never asked to accept again. False: it is destroyed once all connections
  /// are there, as NCCL does.
  bool keep_listener = false;
};

/// Size of message `index` of a direction: 0 to `largest` bytes, small sizes more often.
std::size_t size_of_message(std::uint64_t stream, std::uint64_t index, std::size_t largest);
/// Fills a message, or says at which byte it differs (its size where it does not): a function of the stream
/// (a number that differs by seed, connection and direction), the index and the offset.
void fill_message(std::span<std::byte> message, std::uint64_t stream, std::uint64_t index) noexcept;
std::size_t first_difference(std::span<const std::byte> message, std::uint64_t stream,
                             std::uint64_t index) noexcept;

/// Runs one end in the calling process: end 0 listens and writes its endpoint to `channel`, end 1 reads one
/// from there and connects. Returns when all was received that the other end sent after `stop` was set, and
/// the other end is finished too; or when a connection failed, or a byte was wrong, with the failure on the
/// board.
void run_end(std::size_t end, const FlowOptions& options, int channel, Board& board);

}  // namespace tombolo::faults
