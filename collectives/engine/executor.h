// Carries out one schedule over connections, in the caller's thread: posts what may be posted, combines what
// has arrived, in any order that the schedule's dependencies allow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/data/data_type.h"
#include "collectives/data/premultiply.h"
#include "collectives/gpu/reducer.h"
#include "collectives/schedule/schedule.h"
#include "collectives/stuck/rank_report.h"
#include "transport/transport.h"

namespace tombolo::collectives {

class Executor {
 public:
  /// The connection to a peer; null while it is being made. Throws when it cannot be made.
  using Open = std::function<transport::Connection*(int peer)>;
  explicit Executor(Open open) : open_(std::move(open)) {}
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  struct Task {
    std::shared_ptr<const Schedule> schedule;
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    std::byte* residual = nullptr;  ///< of as many floats as the output, where the schedule uses one
    DataType type = DataType::kInt8;
    ReduceOp op = ReduceOp::kSum;
    Factor factor{};  ///< of a schedule whose problem is premultiplied
    std::size_t ranks = 1;
    /// Carries out the steps that it takes, while the executor goes on with others; null: none.
    gpu::Reducer* reducer = nullptr;
    /// Of as many bytes as the schedule uses; null: the executor's own.
    std::byte* scratch = nullptr;
  };
  /// The buffers and the reducer must live until finished() or clear().
  void start(Task task);
  /// Drops the task; the connections must be closed or idle.
  void clear() noexcept { left_ = 0; }

  bool finished() const noexcept { return left_ == 0; }
  /// Moves what can be moved without blocking; true if anything did. Throws only when a connection cannot be
  /// made.
  bool progress();
  /// Moves bytes of messages that are under way; true if any moved. A wait uses it to decide whether it is
  /// stuck.
  bool progress_connections() noexcept;
  void append_wait_handles(std::vector<pollfd>& handles) const;

  struct Failure {
    int peer;
    std::string text;
  };
  /// The first connection that failed under this task.
  const std::optional<Failure>& failure() const noexcept { return failure_; }
  /// A peer whose message is awaited: the one to name when nothing comes.
  int awaited_peer() const noexcept;
  bool awaits_arrival() const noexcept;
  /// What is awaited of each peer, as collective `number` of that channel.
  void append_waits(std::vector<ReportedWait>& waits, std::uint64_t number, std::int64_t channel) const;

 private:
  /// Messages under way per peer and direction. Eight segments keep a pipeline busy; more only hold memory.
  static constexpr std::size_t kMostInFlight = 8;

  struct Queue {  // one direction
    const std::vector<std::uint32_t>* steps = nullptr;
    std::size_t posted = 0, done = 0;
    transport::Request* requests[kMostInFlight] = {};
    bool finished() const noexcept { return done == steps->size(); }
  };
  struct State {
    int peer = -1;
    transport::Connection* connection = nullptr;
    Queue sends, receives;
  };

  bool progress(State& state);
  bool post(State& state, Queue& queue, bool sending);
  bool reap(State& state, Queue& queue, bool sending);
  void compute(std::uint32_t step);
  /// False where it is the processor's.
  bool start_on_gpu(std::uint32_t step);
  bool finish_on_gpu();
  std::byte* take_scratch(std::size_t bytes);
  void finish(std::uint32_t step);
  std::byte* at(Piece piece) const noexcept;
  void fail(const State& state, std::string text);

  Open open_;
  Task task_;
  std::size_t left_ = 0;  // steps
  std::vector<std::uint32_t> waits_;
  std::vector<std::uint32_t> ready_;  // local steps, first in first out
  std::size_t next_ready_ = 0;
  std::vector<State> states_;
  std::byte* own_scratch_ = nullptr;
  std::size_t own_scratch_bytes_ = 0;
  std::optional<Failure> failure_;
};

}  // namespace tombolo::collectives
