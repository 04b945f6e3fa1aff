#include "collectives/engine/executor.h"

#include <cstring>
#include <new>

#include "base/error.h"

namespace tombolo::collectives {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

Executor::~Executor() {
  ::operator delete(own_scratch_, kAlignment);
}

std::byte* Executor::take_scratch(std::size_t bytes) {
  if (own_scratch_bytes_ < bytes) {
    ::operator delete(own_scratch_, kAlignment);
    own_scratch_ = nullptr;
    own_scratch_bytes_ = 0;
    own_scratch_ = static_cast<std::byte*>(::operator new(bytes, kAlignment));
    own_scratch_bytes_ = bytes;
    std::memset(own_scratch_, 0, bytes);  // a barrier sends bytes that no step wrote
  }
  return own_scratch_;
}

void Executor::start(Task task) {
  task_ = std::move(task);
  const Schedule& schedule = *task_.schedule;
  left_ = schedule.steps.size();
  failure_.reset();
  if (task_.scratch == nullptr) task_.scratch = take_scratch(schedule.scratch_bytes);
  waits_.assign(schedule.dependencies.begin(), schedule.dependencies.end());
  ready_.clear();
  next_ready_ = 0;
  for (std::uint32_t i = 0; i < schedule.steps.size(); ++i) {
    const StepKind kind = schedule.steps[i].kind;
    if (waits_[i] == 0 && kind != StepKind::kSend && kind != StepKind::kReceive) ready_.push_back(i);
  }
  states_.clear();
  for (const Flow& flow : schedule.flows) {
    State state;
    state.peer = flow.peer;
    state.sends.steps = &flow.sends;
    state.receives.steps = &flow.receives;
    states_.push_back(state);
  }
}

bool Executor::progress() {
  bool moved = task_.reducer != nullptr && finish_on_gpu();
  for (State& state : states_) moved |= progress(state);
  // Only one piece is computed per call, so that the connections make progress between two.
  if (next_ready_ < ready_.size()) {
    compute(ready_[next_ready_++]);
    moved = true;
  }
  return moved;
}

bool Executor::progress(State& state) {
  if (state.sends.finished() && state.receives.finished()) return false;
  if (state.connection == nullptr) {
    state.connection = open_(state.peer);
    if (state.connection == nullptr) return false;
  }
  bool moved = post(state, state.receives, false);
  moved |= post(state, state.sends, true);
  moved |= reap(state, state.receives, false);
  moved |= reap(state, state.sends, true);
  return moved;
}

bool Executor::post(State& state, Queue& queue, bool sending) {
  bool moved = false;
  while (queue.posted < queue.steps->size() && queue.posted - queue.done < kMostInFlight) {
    const std::uint32_t index = (*queue.steps)[queue.posted];
    if (waits_[index] != 0) break;
    const Step& step = task_.schedule->steps[index];
    transport::Request* request = sending ? state.connection->post_send({at(step.left), step.bytes})
                                          : state.connection->post_receive({at(step.target), step.bytes});
    if (request == nullptr) break;
    queue.requests[queue.posted++ % kMostInFlight] = request;
    moved = true;
  }
  return moved;
}

bool Executor::reap(State& state, Queue& queue, bool sending) {
  bool moved = false;
  while (queue.done < queue.posted) {
    std::size_t bytes = 0;
    const auto outcome = state.connection->test(queue.requests[queue.done % kMostInFlight], bytes);
    if (outcome == transport::Outcome::kPending) break;
    if (outcome == transport::Outcome::kFailed) {
      const Error* error = state.connection->error();
      fail(state, error != nullptr ? error->what() : "the connection failed");
      return false;
    }
    const std::uint32_t index = (*queue.steps)[queue.done++];
    if (!sending && bytes != task_.schedule->steps[index].bytes) {
      fail(state, bytes == 0
                      ? std::string("it has left the communicator")
                      : fmt::format("it sent {} bytes where {} were expected: the ranks call collectives in "
                                    "different orders or with different counts",
                                    bytes, task_.schedule->steps[index].bytes));
      return false;
    }
    finish(index);
    moved = true;
    // Steps that have just become possible are posted before the next test makes its system calls.
    post(state, sending ? state.sends : state.receives, sending);
  }
  return moved;
}

void Executor::finish(std::uint32_t step) {
  --left_;
  const Schedule& schedule = *task_.schedule;
  for (auto i = schedule.dependents_begin[step]; i < schedule.dependents_begin[step + 1]; ++i) {
    const std::uint32_t next = schedule.dependents[i];
    if (--waits_[next] != 0) continue;
    const StepKind kind = schedule.steps[next].kind;
    if (kind != StepKind::kSend && kind != StepKind::kReceive) ready_.push_back(next);
  }
}

bool Executor::finish_on_gpu() {
  bool moved = false;
  for (; const auto step = task_.reducer->next_done(); moved = true) finish(*step);
  return moved;
}

bool Executor::start_on_gpu(std::uint32_t index) {
  const Step& step = task_.schedule->steps[index];
  gpu::Reduction reduction{at(step.target), at(step.left), at(step.right), step.bytes / size_of(task_.type),
                           task_.type};
  switch (step.kind) {
    case StepKind::kCombine:
      reduction.operation = gpu::operation_of(task_.op, step.premultiplied);
      break;
    case StepKind::kCopy:
      if (step.premultiplied == Premultiplied::kNone) return false;
      reduction.operation = gpu::Operation::kMultiply;
      break;
    case StepKind::kDivide:
      reduction.left = reduction.target;
      reduction.operation = gpu::Operation::kDivide;
      break;
    case StepKind::kEncode:
    case StepKind::kDecode:
    case StepKind::kDecodeAdd:
    case StepKind::kFence:
    case StepKind::kSend:
    case StepKind::kReceive:
      return false;
  }
  reduction.operand = task_.ranks;
  if (step.premultiplied != Premultiplied::kNone)
    std::memcpy(&reduction.operand, task_.factor.bytes.data(), sizeof reduction.operand);
  return task_.reducer->start(reduction, index);
}

void Executor::compute(std::uint32_t index) {
  if (task_.reducer != nullptr && start_on_gpu(index)) return;
  const Step& step = task_.schedule->steps[index];
  const std::size_t count = step.bytes / size_of(task_.type);
  switch (step.kind) {
    case StepKind::kCombine:
      if (step.premultiplied == Premultiplied::kNone) {
        combine(at(step.target), at(step.left), at(step.right), count, task_.type, task_.op);
      } else {
        premultiplied_sum(at(step.target), at(step.left), at(step.right), step.premultiplied, count,
                          task_.type, task_.factor);
      }
      break;
    case StepKind::kCopy:
      if (step.premultiplied == Premultiplied::kNone) {
        std::memmove(at(step.target), at(step.left), step.bytes);
      } else {
        premultiply(at(step.target), at(step.left), count, task_.type, task_.factor);
      }
      break;
    case StepKind::kDivide:
      divide(at(step.target), count, task_.type, task_.ranks);
      break;
    case StepKind::kEncode:
      encode(task_.schedule->compression, at(step.left), count, at(step.target),
             step.right.buffer == Buffer::kResidual ? at(step.right) : nullptr);
      break;
    case StepKind::kDecode:
      decode(task_.schedule->compression, at(step.left), count, at(step.target));
      break;
    case StepKind::kDecodeAdd:
      decode_add(task_.schedule->compression, at(step.left), count, at(step.right), at(step.target));
      break;
    case StepKind::kFence:
    case StepKind::kSend:
    case StepKind::kReceive:
      break;
  }
  finish(index);
}

std::byte* Executor::at(Piece piece) const noexcept {
  switch (piece.buffer) {
    case Buffer::kInput:
      // The input is only read: schedules write to output and scratch.
      return const_cast<std::byte*>(task_.input) + piece.offset;
    case Buffer::kOutput:
      return task_.output + piece.offset;
    case Buffer::kResidual:
      return task_.residual + piece.offset;
    case Buffer::kScratch:
      break;
  }
  return task_.scratch + piece.offset;
}

void Executor::fail(const State& state, std::string text) {
  if (!failure_) failure_ = Failure{state.peer, std::move(text)};
}

bool Executor::progress_connections() noexcept {
  bool moved = false;
  for (State& state : states_) {
    if (state.connection == nullptr || (state.sends.finished() && state.receives.finished())) continue;
    moved |= state.connection->progress();
    const Error* error = state.connection->error();
    if (error == nullptr) continue;
    // The peer's last messages may have come just before its end.
    moved |= reap(state, state.receives, false);
    moved |= reap(state, state.sends, true);
    // A peer may die while nothing is posted to it.
    if (!state.sends.finished() || !state.receives.finished()) fail(state, error->what());
  }
  return moved;
}

void Executor::append_wait_handles(std::vector<pollfd>& handles) const {
  for (const State& state : states_) {
    if (state.connection == nullptr || (state.sends.finished() && state.receives.finished())) continue;
    state.connection->append_wait_handles(handles);
  }
}

int Executor::awaited_peer() const noexcept {
  int peer = -1;
  for (const State& state : states_) {
    const bool receiving = state.receives.done < state.receives.posted;
    if (receiving ||
        (state.connection == nullptr && !(state.sends.finished() && state.receives.finished()))) {
      return state.peer;
    }
    if (state.sends.done < state.sends.posted) peer = state.peer;
  }
  return peer;
}

void Executor::append_waits(std::vector<ReportedWait>& waits, std::uint64_t number,
                            std::int64_t channel) const {
  for (const State& state : states_) {
    if (state.sends.finished() && state.receives.finished()) continue;
    for (const bool sending : {false, true}) {
      const Queue& queue = sending ? state.sends : state.receives;
      const bool connecting = state.connection == nullptr && !queue.finished();
      if (!connecting && queue.done == queue.posted) continue;
      waits.push_back({number, state.peer,
                       connecting ? WaitKind::kConnect
                       : sending  ? WaitKind::kSend
                                  : WaitKind::kReceive,
                       channel, queue.done, queue.steps->size(),
                       task_.schedule->steps[(*queue.steps)[queue.done]].bytes});
      if (connecting) break;
    }
  }
}

bool Executor::awaits_arrival() const noexcept {
  for (const State& state : states_) {
    if (state.receives.done < state.receives.posted) return true;
  }
  return false;
}

}  // namespace tombolo::collectives
