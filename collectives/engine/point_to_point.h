// Messages between two ranks, matched in order per pair and direction. They progress in the caller's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/engine/mesh.h"
#include "collectives/engine/work_table.h"
#include "collectives/gpu/staged.h"
#include "collectives/stuck/rank_report.h"

namespace tombolo::collectives {

class PointToPoint {
 public:
  PointToPoint(Mesh* mesh, int rank) : mesh_(mesh), rank_(rank) {}

  /// Starts to send `data`, or to receive into it. A message of zero bytes is done at once. A rank may send
  /// to itself.
  /// `staged`: null, or of which `data` is the host memory: the message is sent or received once that is
  /// ready, and done once that is.
  Work start(bool sending, std::byte* data, std::size_t bytes, int peer,
             std::shared_ptr<gpu::Staged> staged = nullptr);
  /// Throws kInvalidUsage for a Work that was redeemed before, or never given out.
  bool done(Work work) const {
    const Operation& one = operations_.at(work);
    return one.done && (!one.staged || one.staged->is_done());
  }
  /// Whether its bytes have left `data` or arrived there.
  bool has_moved(Work work) const { return operations_.at(work).done; }
  void redeem(Work work) { operations_.redeem(work); }
  /// Forgets an operation that cannot finish; its buffer is not touched again. Only on a communicator of one
  /// rank.
  void take_back(Work work);
  struct Facts {
    bool sending;
    int peer;
    std::size_t bytes;
    const gpu::Staged* staged;
  };
  Facts facts(Work work) const;

  bool idle() const noexcept { return queues_.empty(); }
  bool progress();
  bool progress_connections() noexcept;
  void append_wait_handles(std::vector<pollfd>& handles) const;
  /// The oldest message in each direction with each peer.
  void append_waits(std::vector<ReportedWait>& waits) const;
  void clear() noexcept { queues_.clear(); }

  struct Failure {
    int peer;
    std::string text;
  };
  const std::optional<Failure>& failure() const noexcept { return failure_; }

 private:
  static constexpr std::size_t kMostInFlight = 8;
  struct Operation {
    bool sending = false, done = false;
    int peer = -1;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    transport::Request* request = nullptr;
    std::shared_ptr<gpu::Staged> staged = nullptr;
    bool may_move() const noexcept { return !staged || staged->is_ready(); }
  };
  struct Queue {  // operations in order; the first `posted` are with the connection
    std::deque<std::uint32_t> operations;
    std::size_t posted = 0;
  };
  struct Queues {
    Queue sends, receives;
    bool empty() const noexcept { return sends.operations.empty() && receives.operations.empty(); }
  };

  bool progress_self(Queues& queues);
  bool progress_queue(int peer, transport::Connection& connection, Queue& queue);

  Mesh* mesh_;  // null where there are no peers
  int rank_;
  WorkTable<Operation> operations_{WorkKind::kMessage};
  std::map<int, Queues> queues_;  // of peers with something to do
  std::optional<Failure> failure_;
};

}  // namespace tombolo::collectives
