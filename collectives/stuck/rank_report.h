// What a rank that waits in vain says of itself in the store, for `tombolo stuck`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tombolo::collectives {

enum class OperationState : std::uint8_t {
  kScheduled,  ///< behind another one of its channel
  kStarted,
  kCompleted,
};
/// "scheduled", "started", "completed"
std::string_view operation_state_name(OperationState state) noexcept;

struct ReportedOperation {
  std::uint64_t number = 0;  ///< of the communicator's collectives, from 1
  std::string collective;    ///< "all_reduce"
  std::string type, op;      ///< "float", "sum"; `op` is empty where nothing is reduced
  std::uint64_t count = 0;   ///< elements, as Problem::count
  std::int64_t root = -1;    ///< -1: it has none
  bool uneven = false;       ///< the ranks' parts, and so `count`, may differ
  OperationState state = OperationState::kStarted;
  std::int64_t started_ns = 0;  ///< since 1970, by this host's clock

  /// "all_reduce #7 (1024 float sum)"
  std::string text() const;
  bool operator==(const ReportedOperation&) const = default;
};

enum class WaitKind : std::uint8_t {
  kReceive,  ///< a message of the peer's has not come
  kSend,     ///< a message to the peer is not taken
  kConnect,  ///< the connection with the peer is not made
  kMemory,   ///< the peer, of the same host, has not written its part
};
/// "receive", "send", "connect", "memory"
std::string_view wait_kind_name(WaitKind kind) noexcept;

/// Whom a rank waits for at this moment.
struct ReportedWait {
  std::uint64_t number = 0;  ///< of the collective; 0: a message between two ranks
  std::int64_t peer = 0;     ///< rank of the job
  WaitKind kind = WaitKind::kReceive;
  std::int64_t channel = -1;        ///< of ReportedLink; -1: memory
  std::uint64_t messages_done = 0;  ///< of this collective with the peer in that direction
  std::uint64_t messages = 0;       ///< 0: not counted
  std::uint64_t bytes = 0;          ///< of the message

  bool operator==(const ReportedWait&) const = default;
};

/// A connection of a communicator, as this end sees it.
struct ReportedLink {
  std::int64_t peer = 0;     ///< rank of the job
  std::int64_t channel = 0;  ///< tells the connections with one peer apart; the same on both ends
  std::string transport, nic, peer_nic, peer_address;
  std::uint64_t messages_sent = 0, messages_received = 0;
  std::uint64_t streams = 0, retransmitted = 0;

  /// "tcp eth0 -> eth1 (10.0.0.4:1234)"
  std::string text() const;
  bool operator==(const ReportedLink&) const = default;
};

struct ReportedCommunicator {
  std::string name;                           ///< the same on all of its ranks
  std::vector<std::int64_t> ranks;            ///< ranks of the job, by rank of the communicator
  std::string doing;                          ///< for people: what the wait is in
  double stuck_seconds = 0;                   ///< for which nothing had moved when this was written
  std::vector<ReportedOperation> operations;  ///< the oldest first
  std::vector<ReportedWait> waits;
  std::vector<ReportedLink> links;

  /// The oldest operation that is not completed; null where there is none.
  const ReportedOperation* current() const noexcept;
  bool operator==(const ReportedCommunicator&) const = default;
};

struct RankReport {
  std::int64_t rank = 0;
  std::string host;
  std::int64_t process = 0;
  std::int64_t written_ns = 0;  ///< since 1970, by this host's clock
  /// Those in which it waits in vain; none: it has said so before, and has gone on since.
  std::vector<ReportedCommunicator> communicators;

  std::vector<std::byte> encode() const;
  /// The bytes come from a store that may admit anyone. Throws kRemote, naming the rank, where they are no
  /// report, or one of another rank.
  static RankReport decode(std::span<const std::byte> bytes, std::int64_t rank);
  bool operator==(const RankReport&) const = default;
};

/// Where in the store.
std::string report_key(std::string_view prefix, std::int64_t rank);

}  // namespace tombolo::collectives
