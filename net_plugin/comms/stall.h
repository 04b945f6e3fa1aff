// A line for a wait in which nothing moves, so that a job that hangs says where: which rank waits for which
// peer, over which NICs, in which operation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "transport/transport.h"

namespace tombolo::net_plugin {

/// What a message waits for.
enum class StallWaits {
  kLane,      ///< the connection of its tag, which is being made
  kTransfer,  ///< its connection has it, and neither end's host has moved a byte
  kGpuCopy,   ///< it is staged, and the GPU has not done a copy of a piece
  kStaged,    ///< it is staged, and the transport has moved no byte of its piece
};

/// Of a message that its connection has.
constexpr StallWaits stall_waits(transport::WaitsFor waits) noexcept {
  switch (waits) {
    case transport::WaitsFor::kGpuCopy:
      return StallWaits::kGpuCopy;
    case transport::WaitsFor::kStagedPiece:
      return StallWaits::kStaged;
    case transport::WaitsFor::kPeer:
      break;
  }
  return StallWaits::kTransfer;
}

struct StallFacts {
  std::string rank;  ///< empty where no variable tells it
  std::string host;  ///< this one
  transport::Route route;
  bool sends = false;
  StallWaits waits = StallWaits::kTransfer;
  std::size_t bytes = 0;  ///< of the message (or of the place for it)
  int tag = 0;
  std::uint64_t messages_done = 0;  ///< over that connection, in the comm's direction
  std::uint64_t bytes_done = 0;
  Duration stalled{};
};

/// The line: who waits for whom, how long, in which message, and what it may mean. Pure.
std::string stall_text(const StallFacts& facts);

/// The end of every such line: which variable sets after how long it is told.
std::string stall_hint();

/// This process's rank as its launcher's variables tell it (RANK, SLURM_PROCID, ...); empty where none does.
std::string rank_from_environment();

/// Lets a process tell of so many stalls in each `limit`, because a rank that hangs stalls all its comms. Any
/// thread may use it.
class StallReports {
 public:
  static constexpr int kMost = 4;

  /// A zero limit: nothing is ever told.
  StallReports(Duration limit, std::string rank, std::string host)
      : limit_(limit), rank_(std::move(rank)), host_(std::move(host)) {}

  Duration limit() const noexcept { return limit_; }
  const std::string& rank() const noexcept { return rank_; }
  const std::string& host() const noexcept { return host_; }
  /// "rank 3 on host a0", or "host a0".
  std::string place() const;
  /// Whether one more may be told; counts it.
  bool may_tell(TimePoint now) noexcept;

 private:
  Duration limit_;
  std::string rank_, host_;
  std::atomic<Duration::rep> since_{0};
  std::atomic<int> told_{0};
};

/// Watches one comm, or another wait. It costs a counter for each call, and the caller a look at the clock
/// and at the connections for each kCalls. Not for several threads at once.
class StallWatch {
 public:
  static constexpr unsigned kCalls = 1024;

  /// A message was posted: what nothing moved before does not count.
  void begin() noexcept { fresh_ = true; }
  /// Whether look() should be called; counts the calls.
  bool due() noexcept { return ++calls_ % kCalls == 0; }
  /// `moved` changes with every byte that moves. Returns for how long nothing has where that should be told:
  /// once after `limit`, and once after ten times as long.
  std::optional<Duration> look(std::uint64_t moved, TimePoint now, Duration limit) noexcept;

 private:
  bool fresh_ = true;
  std::uint8_t told_ = 0;
  unsigned calls_ = 0;
  std::uint64_t moved_ = 0;
  TimePoint since_{};
};

}  // namespace tombolo::net_plugin
