// Collectives by messages. Each is carried out on a channel, and those of one channel one after the other;
// channels have connections of their own, so that collectives on different ones overlap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/engine/executor.h"
#include "collectives/engine/mesh.h"
#include "collectives/engine/task_queue.h"

namespace tombolo::collectives {

/// One thread at a time.
class Channels {
 public:
  static constexpr std::size_t kCount = kChannelTraffic.size();

  explicit Channels(Mesh& mesh);

  /// A collective on one of the channels.
  struct Ticket {
    std::size_t channel = 0;
    std::uint64_t number = 0;
  };
  /// Every rank starts the same collectives on a channel in the same order. The task's buffers live until
  /// done() or clear().
  Ticket start(std::size_t channel, Executor::Task task);
  bool done(Ticket ticket) const noexcept { return channels_[ticket.channel].queue.done(ticket.number); }
  bool idle() const noexcept;
  /// Drops all collectives; the connections must be closed.
  void clear() noexcept;

  /// As Executor's functions of these names, for all channels.
  bool progress();
  bool progress_connections() noexcept;
  void append_wait_handles(std::vector<pollfd>& handles) const;
  bool awaits_arrival() const noexcept;

  struct Failure {
    Traffic traffic = Traffic::kCollective;
    int peer = -1;
    std::string text;
  };
  /// The first connection that failed under a collective.
  std::optional<Failure> failure() const;
  struct Awaited {
    Traffic traffic = Traffic::kCollective;
    int peer = -1;
  };
  /// Whose message that collective's channel awaits; nothing where none is, or its connection has failed.
  std::optional<Awaited> awaited(Ticket ticket) const noexcept;
  /// All that the collective awaits that a channel carries out, which is `number`; peers are ranks here.
  void append_waits(std::size_t channel, std::vector<ReportedWait>& waits, std::uint64_t number) const;

 private:
  struct Channel {
    Channel(Mesh& mesh, Traffic traffic);
    Executor executor;
    TaskQueue<Executor, Executor::Task> queue;
  };

  std::array<Channel, kCount> channels_;
};

}  // namespace tombolo::collectives
