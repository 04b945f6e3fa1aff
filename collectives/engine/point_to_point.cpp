#include "collectives/engine/point_to_point.h"

#include <cstring>
#include <utility>

#include "base/error.h"

namespace tombolo::collectives {

Work PointToPoint::start(bool sending, std::byte* data, std::size_t bytes, int peer,
                         std::shared_ptr<gpu::Staged> staged) {
  const bool done = bytes == 0;
  const Work work = operations_.add({sending, done, peer, data, bytes, nullptr, std::move(staged)});
  if (done) return work;
  Queues& queues = queues_[peer];
  (sending ? queues.sends : queues.receives).operations.push_back(work.index);
  return work;
}

PointToPoint::Facts PointToPoint::facts(Work work) const {
  const Operation& one = operations_.at(work);
  return {one.sending, one.peer, one.bytes, one.staged.get()};
}

void PointToPoint::take_back(Work work) {
  const Operation& one = operations_.at(work);
  TOMBOLO_CHECK(one.request == nullptr, "peer={}", one.peer);
  if (const auto at = queues_.find(one.peer); at != queues_.end()) {
    std::erase(at->second.sends.operations, work.index);
    std::erase(at->second.receives.operations, work.index);
    if (at->second.empty()) queues_.erase(at);
  }
  failure_.reset();
  redeem(work);
}

bool PointToPoint::progress() {
  bool moved = false;
  for (auto at = queues_.begin(); at != queues_.end();) {
    auto& [peer, queues] = *at;
    if (peer == rank_) {
      moved |= progress_self(queues);
    } else if (transport::Connection* connection = mesh_->open(Traffic::kPointToPoint, peer)) {
      moved |= progress_queue(peer, *connection, queues.receives);
      moved |= progress_queue(peer, *connection, queues.sends);
    }
    at = queues.empty() ? queues_.erase(at) : std::next(at);
  }
  return moved;
}

bool PointToPoint::progress_self(Queues& queues) {
  bool moved = false;
  while (!queues.sends.operations.empty() && !queues.receives.operations.empty()) {
    Operation& from = operations_.at_index(queues.sends.operations.front());
    Operation& to = operations_.at_index(queues.receives.operations.front());
    if (from.bytes != to.bytes) {
      failure_ = Failure{rank_, fmt::format("it sends itself {} bytes but expects {}", from.bytes, to.bytes)};
      return moved;
    }
    if (!from.may_move() || !to.may_move()) return moved;
    std::memmove(to.data, from.data, from.bytes);
    from.done = to.done = true;
    queues.sends.operations.pop_front();
    queues.receives.operations.pop_front();
    moved = true;
  }
  return moved;
}

bool PointToPoint::progress_queue(int peer, transport::Connection& connection, Queue& queue) {
  bool moved = false;
  while (queue.posted < queue.operations.size() && queue.posted < kMostInFlight) {
    Operation& one = operations_.at_index(queue.operations[queue.posted]);
    if (!one.may_move()) break;
    one.request = one.sending ? connection.post_send({one.data, one.bytes})
                              : connection.post_receive({one.data, one.bytes});
    if (one.request == nullptr) break;
    ++queue.posted;
    moved = true;
  }
  while (queue.posted > 0) {
    Operation& one = operations_.at_index(queue.operations.front());
    std::size_t bytes = 0;
    const auto outcome = connection.test(one.request, bytes);
    if (outcome == transport::Outcome::kPending) break;
    if (outcome == transport::Outcome::kFailed) {
      const Error* error = connection.error();
      failure_ = Failure{peer, error != nullptr ? error->what() : "the connection failed"};
      return moved;
    }
    queue.operations.pop_front();
    --queue.posted;
    if (!one.sending && bytes != one.bytes) {
      failure_ = Failure{
          peer, bytes == 0 ? std::string("it has left the communicator")
                           : fmt::format("it sent {} bytes where {} were expected", bytes, one.bytes)};
      return moved;
    }
    one.done = true;
    moved = true;
  }
  return moved;
}

bool PointToPoint::progress_connections() noexcept {
  bool moved = false;
  for (auto& [peer, queues] : queues_) {
    if (peer == rank_) continue;
    transport::Connection* connection = mesh_->find(Traffic::kPointToPoint, peer);
    if (connection == nullptr) continue;
    moved |= connection->progress();
    const Error* error = connection->error();
    if (error == nullptr) continue;
    // The peer's last messages may have come just before its end.
    moved |= progress_queue(peer, *connection, queues.receives);
    moved |= progress_queue(peer, *connection, queues.sends);
    if (!queues.empty() && !failure_) failure_ = Failure{peer, error->what()};
  }
  return moved;
}

void PointToPoint::append_waits(std::vector<ReportedWait>& waits) const {
  for (const auto& [peer, queues] : queues_) {
    const bool connected = peer == rank_ || mesh_->find(Traffic::kPointToPoint, peer) != nullptr;
    for (const bool sending : {false, true}) {
      const auto& pending = (sending ? queues.sends : queues.receives).operations;
      if (pending.empty()) continue;
      waits.push_back({0, peer,
                       !connected ? WaitKind::kConnect
                       : sending  ? WaitKind::kSend
                                  : WaitKind::kReceive,
                       static_cast<std::int64_t>(Traffic::kPointToPoint), 0, pending.size(),
                       operations_.at_index(pending.front()).bytes});
    }
  }
}

void PointToPoint::append_wait_handles(std::vector<pollfd>& handles) const {
  for (const auto& [peer, queues] : queues_) {
    if (peer == rank_) continue;
    if (const auto* connection = mesh_->find(Traffic::kPointToPoint, peer))
      connection->append_wait_handles(handles);
  }
}

}  // namespace tombolo::collectives
