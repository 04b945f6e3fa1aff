// A transfer that knows every byte it must see: messages of random sizes over several connections, both ways,
// until it is told to stop.
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
  /// Kept, and never asked to accept again, instead of destroyed once all connections are there. NCCL
  /// destroys it.
  bool keep_listener = false;
};

/// Bytes that message `index` of a direction has: of 0 to `largest`, the small ones more often.
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
