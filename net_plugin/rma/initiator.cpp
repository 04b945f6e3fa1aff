#include "net_plugin/rma/initiator.h"

#include <algorithm>
#include <exception>

#include "base/error.h"

namespace tombolo::net_plugin::rma {

using transport::Outcome;

namespace {

const char* word(Answer answer) {
  switch (answer) {
    case Answer::kDone:
      return "done";
    case Answer::kNoSuchWindow:
      return "it has no such window, or not any more";
    case Answer::kOutOfWindow:
      return "the range is not inside its window";
    case Answer::kNoSuchSignal:
      return "the signal's offset is no multiple of 8, or its word is not inside a window";
    case Answer::kCopyFailed:
      return "CUDA refused to copy there";
    case Answer::kNotUnderstood:
      return "it does not understand the request; use the same release of Tombolo on all ranks";
  }
  return "an answer that is unknown here; use the same release of Tombolo on all ranks";
}

}  // namespace

std::string describe(const Operation& operation) {
  const RequestFrame& frame = operation.frame;
  std::string text;
  if (frame.kind == OperationKind::kFlush) return fmt::format("flush of rank {}", operation.rank);
  if (frame.kind == OperationKind::kWindow)
    return fmt::format("question for window {} of rank {}", frame.window, operation.rank);
  text = fmt::format("{} of {} bytes {} rank {}", frame.kind == OperationKind::kPut ? "put" : "get",
                     frame.bytes, frame.kind == OperationKind::kPut ? "to" : "from", operation.rank);
  if (frame.window != kNoWindow) text += fmt::format(", window {} at offset {}", frame.window, frame.offset);
  if (frame.signal_window != kNoWindow)
    text +=
        fmt::format(", with a signal at offset {} of window {}", frame.signal_offset, frame.signal_window);
  return text;
}

Initiator::Initiator(std::unique_ptr<transport::Connection> connection, CopyPieces& pieces, bool by_nic)
    : Initiator(Dial(), pieces, by_nic) {
  connection_ = std::move(connection);
}

bool Initiator::connect() {
  if (!dialled_.connecting) dialled_ = dial_();
  connection_ = dialled_.connecting->poll();
  if (!connection_) return false;
  dialled_.connecting.reset();
  return true;
}

bool Initiator::progress() noexcept {
  if (error_ || (queue_.empty() && awaiting_.empty())) return false;
  try {
    if (!connection_ && !connect()) return false;
    bool moved = frames_.retire(*connection_);
    moved |= receive();
    moved |= run_ahead();
    moved |= send();
    steps_ += moved ? 1 : 0;
    if (const Error* error = connection_->error(); error != nullptr) throw Error(*error);
    if (!moved) moved = connection_->progress();
    return moved;
  } catch (const std::exception& error) {
    fail(error.what());
    return true;
  }
}

std::optional<OperationStall> Initiator::look_for_stall(TimePoint now, Duration limit) {
  if (error_ || (queue_.empty() && awaiting_.empty())) return std::nullopt;
  std::uint64_t moved = steps_;
  if (connection_) {
    const transport::Statistics counts = connection_->statistics();
    moved += counts.bytes_sent + counts.bytes_received + 1;
  }
  const std::optional<Duration> stalled = watch_.look(moved, now, limit);
  if (!stalled) return std::nullopt;
  const Operation& oldest = awaiting_.empty() ? *queue_.front() : *awaiting_.front();
  OperationStall facts;
  facts.operation = describe(oldest);
  // One whose parts are being sent is in both.
  facts.behind = awaiting_.size() + queue_.size() - 1;
  if (!awaiting_.empty() && !queue_.empty() && awaiting_.back() == queue_.front()) --facts.behind;
  facts.rank = oldest.rank;
  facts.stalled = *stalled;
  if (connection_) facts.route = &connection_->route();
  facts.waits = !connection_                         ? OperationWaits::kConnection
                : !awaiting_.empty()                 ? OperationWaits::kAnswer
                : oldest.way == Operation::Way::kNic ? OperationWaits::kNic
                                                     : OperationWaits::kTurn;
  return facts;
}

void Initiator::check(Outcome outcome, const Operation& operation) const {
  if (outcome != Outcome::kFailed) return;
  if (const Error* error = connection_->error(); error != nullptr) throw Error(*error);
  tombolo::fail(Cause::kSystem, "{}: CUDA refused a copy of this rank's memory, or a part came short",
                describe(operation));
}

/// Decides how operations go, in order, and gives the NICs what they carry out, before its turn to be sent
/// comes.
bool Initiator::run_ahead() {
  bool moved = false;
  while (ahead_ < queue_.size()) {
    Operation& operation = *queue_[ahead_];
    if (operation.way == Operation::Way::kOpen) {
      switch (nic_.choose(*connection_, operation)) {
        case NicWay::Choice::kMessage:
          operation.way = Operation::Way::kMessage;
          break;
        case NicWay::Choice::kAsk:
          queue_.insert(queue_.begin() + static_cast<std::ptrdiff_t>(ahead_),
                        &nic_.ask(operation.rank, operation.frame.window));
          continue;
        case NicWay::Choice::kWait:
          return moved;
        case NicWay::Choice::kNic:
          if (!may_begin(operation)) return moved;
          switch (nic_.begin(*connection_, operation)) {
            case transport::OneSided::Begun::kYes:
              operation.way = Operation::Way::kNic;
              break;
            case transport::OneSided::Begun::kTryAgain:
              return moved;
            case transport::OneSided::Begun::kNever:
              operation.way = Operation::Way::kMessage;
          }
      }
      moved = true;
    }
    ++ahead_;
  }
  return moved;
}

bool Initiator::may_begin(const Operation& operation) const noexcept {
  const auto one = [&](const Operation* earlier) { return may_overtake(operation, *earlier); };
  return std::all_of(awaiting_.begin(), awaiting_.end(), one) &&
         std::all_of(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(ahead_), one);
}

/// The connection has left the NICs. What they had goes again, by messages: the other rank has been told of
/// none of it, since a signal is sent only when the bytes before it are there.
void Initiator::lose_nics() noexcept {
  for (std::size_t i = 0; i < ahead_; ++i) queue_[i]->way = Operation::Way::kMessage;
}

bool Initiator::send() {
  bool moved = false;
  while (ahead_ > 0) {
    Operation& operation = *queue_.front();
    if (operation.way == Operation::Way::kNic) {
      const auto state = operation.nic.state.load(std::memory_order_acquire);
      if (state == transport::OneSidedOperation::State::kUnderWay) return moved;
      if (state == transport::OneSidedOperation::State::kLost) lose_nics();
      if (operation.way == Operation::Way::kNic && !operation.has_signal()) {
        operation.state = Operation::State::kDone;
        queue_.pop_front();
        --ahead_;
        moved = true;
        continue;
      }
    }
    const RequestFrame frame = operation.message();
    const bool puts = frame.kind == OperationKind::kPut && frame.bytes > 0;
    const bool is_inline = puts && frame.bytes <= kInlineBytes;
    FrameSender::Slot* slot = frames_.next();
    if (sending_ != Sending::kParts && slot == nullptr) return moved;
    if (sending_ == Sending::kNothing) {
      put_frame(*slot, frame);
      if (is_inline) {
        transfer_out_.read(*operation.local, operation.local_offset,
                           std::span(slot->bytes).subspan(sizeof(RequestFrame), frame.bytes));
      }
      sending_ = Sending::kGathering;
    }
    if (sending_ == Sending::kGathering) {
      const Outcome outcome = transfer_out_.poll();
      check(outcome, operation);
      if (outcome == Outcome::kPending) return moved;
      sending_ = Sending::kPosting;
    }
    if (sending_ == Sending::kPosting) {
      if (!frames_.post(*connection_, sizeof(RequestFrame) + (is_inline ? frame.bytes : 0))) return moved;
      moved = true;
      awaiting_.push_back(&operation);
      if (puts && !is_inline) parts_out_.begin(*operation.local, operation.local_offset, frame.bytes);
      sending_ = puts && !is_inline ? Sending::kParts : Sending::kNothing;
    }
    if (sending_ == Sending::kParts) {
      const Outcome outcome = parts_out_.progress(*connection_);
      check(outcome, operation);
      if (outcome == Outcome::kPending) return moved;
      sending_ = Sending::kNothing;
    }
    queue_.pop_front();
    --ahead_;
  }
  return moved;
}

bool Initiator::receive() {
  bool moved = false;
  while (!awaiting_.empty()) {
    Operation& operation = *awaiting_.front();
    const RequestFrame frame = operation.message();
    const bool gets = frame.kind == OperationKind::kGet && frame.bytes > 0;
    const bool is_inline = gets && frame.bytes <= kInlineBytes;
    const bool asks = frame.kind == OperationKind::kWindow;
    if (receiving_ == Receiving::kReply) {
      const auto bytes = replies_.poll(*connection_);
      if (!bytes) return moved;
      moved = true;
      ReplyFrame reply;
      if (bytes->size() >= sizeof(reply)) std::memcpy(&reply, bytes->data(), sizeof(reply));
      if (reply.answer != Answer::kDone) {
        tombolo::fail(Cause::kRemote, "{}: rank {} refused: {}{}", describe(operation), operation.rank,
                      word(reply.answer),
                      reply.window_bytes > 0 ? fmt::format(" of {} bytes", reply.window_bytes) : "");
      }
      const std::size_t answered = is_inline ? static_cast<std::size_t>(frame.bytes)
                                   : asks    ? sizeof(transport::RemoteWindow)
                                             : 0;
      if (bytes->size() != sizeof(reply) + answered) {
        tombolo::fail(Cause::kRemote, "{}: a reply of {} bytes does not belong to it", describe(operation),
                      bytes->size());
      }
      if (asks) {
        transport::RemoteWindow remote;
        std::memcpy(&remote, bytes->data() + sizeof(reply), sizeof(remote));
        nic_.hear(frame.window, remote);
      } else if (is_inline) {
        transfer_in_.write(*operation.local, operation.local_offset, bytes->subspan(sizeof(reply)));
      } else if (gets) {
        parts_in_.begin(*operation.local, operation.local_offset, frame.bytes);
      }
      receiving_ = gets && !is_inline ? Receiving::kParts : Receiving::kScattering;
    }
    const Outcome outcome =
        receiving_ == Receiving::kParts ? parts_in_.progress(*connection_) : transfer_in_.poll();
    check(outcome, operation);
    if (outcome == Outcome::kPending) return moved;
    // The last of its parts may still be in the transport's hands although they have arrived.
    if (!queue_.empty() && queue_.front() == &operation) return moved;
    replies_.done();
    receiving_ = Receiving::kReply;
    awaiting_.pop_front();
    operation.state = Operation::State::kDone;
  }
  return moved;
}

void Initiator::fail(const std::string& why) noexcept {
  if (!error_) error_.emplace(why);
  dialled_.connecting.reset();
  connection_.reset();
  for (Operation* operation : queue_) operation->state = Operation::State::kFailed;
  for (Operation* operation : awaiting_) operation->state = Operation::State::kFailed;
  queue_.clear();
  ahead_ = 0;
  awaiting_.clear();
}

void Initiator::stop_copies() noexcept {
  parts_in_.stop();
  parts_out_.stop();
  transfer_in_.stop();
  transfer_out_.stop();
}

bool Initiator::uses(const Window& window) const noexcept {
  const auto one = [&](const Operation* operation) { return operation->local == &window; };
  return std::any_of(queue_.begin(), queue_.end(), one) ||
         std::any_of(awaiting_.begin(), awaiting_.end(), one);
}

}  // namespace tombolo::net_plugin::rma
