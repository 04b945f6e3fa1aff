#include "transport/routing/failover_connection.h"

#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/bootstrap/acceptor.h"
#include "transport/kernel.h"

namespace tombolo::transport {
namespace {

// The connection looks for streams of its peer so often, which takes system calls; while connections are
// being made, so often that this takes a fiftieth of the time. It looks at the clock in one of so many turns.
constexpr Duration kLookEvery = std::chrono::milliseconds(1), kLookSoon = std::chrono::microseconds(100);
constexpr unsigned kTurnsPerClock = 4;
constexpr Duration kTick = std::chrono::milliseconds(20);
// How long closing waits for messages that count as sent and that the peer may not have.
constexpr Duration kFlushTime = std::chrono::seconds(2);

}  // namespace

FailoverConnection::FailoverConnection(std::unique_ptr<Connection> first, LegMaker maker, Side side,
                                       std::unique_ptr<bootstrap::AuthenticatingListener> listener,
                                       Endpoint peer, ConnectOptions options,
                                       const std::vector<NicPairName>& lost)
    : maker_(std::move(maker)),
      side_(side),
      peer_(std::move(peer)),
      options_(std::move(options)),
      label_(first->label()),
      route_(first->route()),
      description_(describe("failover", route_, options_.peer_name)),
      texts_(description_),
      absences_(maker_.return_after),
      patience_(Deadline::after(Duration::zero(), *maker_.acceptor->local()->clock)),
      listener_(std::move(listener)),
      beside_patience_(patience_),
      record_in_(FailoverRecord::kBytes),
      beside_in_(FailoverRecord::kBytes),
      begun_with_one_sided_(first->one_sided() != nullptr),
      timer_(kernel().timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
  if (!timer_) fail_errno(errno, "timerfd_create");
  if (connecting() && route_.legs_listener != 0) {
    peer_.listener = route_.legs_listener;
    peer_known_ = true;
  }
  for (const NicPairName& pair : lost) absences_.failed(pair, local().clock->now());
  counts_.connection = first->statistics().connection;
  if (maker_.gpu_staging) staging_ = maker_.gpu_staging(label_);
  flushes_ = std::vector<Flush>(kRequestsPerDirection);
  memories_.stage_by(staging_.get());
  begin_leg(std::move(first));
  show_route();
  maker_.acceptor->background_progress().add(this);
}

FailoverConnection::~FailoverConnection() {
  if (maker_.acceptor->is_copy()) return;
  maker_.acceptor->background_progress().remove(this);
  // What counts as sent has to arrive, also where its way failed after that.
  std::vector<pollfd> handles;
  for (const Deadline until = Deadline::after(kFlushTime, *local().clock);
       !kept_.empty() && !error_ && !until.passed();) {
    if (move()) continue;
    handles.clear();
    append_wait_handles(handles);
    kernel().poll(handles.data(), handles.size(), 10);
  }
  memories_.use(nullptr);
  memories_.retired();
}

/// Throws kInternal where the event is impossible.
void FailoverConnection::become(FailoverEvent event) {
  const auto next = next_state(state_, event);
  TOMBOLO_CHECK(next, "state={} event={}", to_text(state_), to_text(event));
  state_ = *next;
}

void FailoverConnection::show_route() noexcept {
  moved_ = false;
  if (leg_ == nullptr) return;
  route_ = leg_->route();
  route_.resumable = true;
}

/// Another thread would wake nobody who waits on the handles of a leg, so that it leaves owners alone who do:
/// the handles wake them.
Duration FailoverConnection::progress_in_background() noexcept {
  const Turns::Visit visit(turns_);
  if (visit.finds() != Turns::Visit::Finds::kNobody || waits_ || error_)
    return bootstrap::BackgroundProgress::kIdle;
  const bool waits_for_record = record_sent_ != nullptr || record_received_ != nullptr;
  if (state_ == FailoverState::kUp && kept_.empty() && !retiring_ && !notice_ && !waits_for_record &&
      arrived_ == nullptr) {
    guarded([&] {
      look_for_arrivals();
      if (!error_ && state_ == FailoverState::kUp && absences_.any()) return_to_lost_nics();
    });
  } else {
    move();
  }
  const bool moves = state_ == FailoverState::kMoving || state_ == FailoverState::kAgreeing || returning_ ||
                     retiring_ || notice_ || arrived_ != nullptr;
  return moves ? bootstrap::BackgroundProgress::kSoon : bootstrap::BackgroundProgress::kIdle;
}

// ---- posting

Request* FailoverConnection::post_send(std::span<const std::byte> data, Memory* memory) noexcept {
  const Call call(*this);
  Message* message =
      sends_.post(const_cast<std::byte*>(data.data()), data.size(), static_cast<FailoverMemory*>(memory));
  if (message != nullptr && state_ == FailoverState::kUp && sends_.fed() + 1 == sends_.posted()) feed_sends();
  return message;
}

Request* FailoverConnection::post_receive(std::span<std::byte> buffer, Memory* memory) noexcept {
  const Call call(*this);
  Message* message = receives_.post(buffer.data(), buffer.size(), static_cast<FailoverMemory*>(memory));
  if (message == nullptr) return nullptr;
  if (!early_.empty()) guarded([&] { deliver_early(*message); });
  if (state_ == FailoverState::kUp && receives_.fed() + 1 == receives_.posted()) feed_receives();
  return message;
}

Request* FailoverConnection::post_flush(std::span<const std::byte> data, Memory* memory) noexcept {
  const Call call(*this);
  if (leg_ == nullptr || memory == nullptr) return nullptr;
  const auto flush = std::ranges::find(flushes_, Flush::State::kFree, &Flush::state);
  if (flush == flushes_.end()) return nullptr;
  guarded([&] { flush->on_leg = leg_->post_flush(data, static_cast<FailoverMemory*>(memory)->on(*leg_)); });
  if (error_) return nullptr;
  // A leg that has failed flushes nothing: what it has written is flushed as it is left.
  if (flush->on_leg == nullptr && leg_->error() == nullptr) return nullptr;
  flush->state = flush->on_leg != nullptr ? Flush::State::kOnLeg : Flush::State::kLost;
  return &*flush;
}

FailoverConnection::Flush* FailoverConnection::flush_of(const Request* request) noexcept {
  const auto* flush = static_cast<const Flush*>(request);
  const bool ours = flush >= flushes_.data() && flush < flushes_.data() + flushes_.size();
  return ours ? const_cast<Flush*>(flush) : nullptr;
}

Outcome FailoverConnection::test_flush(Flush& flush) noexcept {
  if (flush.state == Flush::State::kOnLeg) {
    std::size_t bytes = 0;
    const Outcome outcome = leg_->test(flush.on_leg, bytes);
    if (outcome == Outcome::kDone) flush.state = Flush::State::kDone;
    if (outcome == Outcome::kFailed) flush.state = Flush::State::kLost;
  }
  if (flush.state != Flush::State::kDone) turn(false);
  if (flush.state != Flush::State::kDone && !error_) return Outcome::kPending;
  return std::exchange(flush.state, Flush::State::kFree) == Flush::State::kDone ? Outcome::kDone
                                                                                : Outcome::kFailed;
}

Connection* FailoverConnection::leg_of_receive(std::uint64_t sequence) const noexcept {
  if (retiring_ && (!retiring_->receives_end || sequence < *retiring_->receives_end))
    return retiring_->leg.get();
  return state_ == FailoverState::kUp ? leg_.get() : nullptr;
}

Memory* FailoverConnection::memory_on(Connection& leg, const Message& message) {
  if (message.memory == nullptr) return nullptr;
  return &leg == leg_.get() ? message.memory->on(leg) : message.memory->on_retiring(leg);
}

/// Gives the leg what it takes of the sends that wait, in order.
bool FailoverConnection::feed_sends() noexcept {
  bool fed = false;
  while (sends_.fed() < sends_.posted() && leg_->error() == nullptr) {
    Message* message = sends_.find(sends_.fed());
    if (message != nullptr && message->state == Message::State::kWaiting) {
      Memory* memory = nullptr;
      guarded([&] { memory = memory_on(*leg_, *message); });
      if (error_) return fed;
      message->on_leg = leg_->post_send({message->data, message->size}, memory);
      if (message->on_leg == nullptr) break;
      message->state = Message::State::kOnLeg;
      message->way = way_;
    } else if (message == nullptr && !kept_.empty() && !feed_kept(sends_.fed())) {
      break;
    }
    sends_.feed_on();
    fed = true;
  }
  return fed;
}

/// False where the message is kept and the leg cannot take it now.
bool FailoverConnection::feed_kept(std::uint64_t sequence) noexcept {
  const auto found = kept_.find(sequence);
  if (found == kept_.end()) return true;
  found->second.on_leg = leg_->post_send(found->second.bytes);
  return found->second.on_leg != nullptr;
}

/// Forgets what the leg has sent.
void FailoverConnection::look_at_kept() noexcept {
  for (auto at = kept_.begin(); at != kept_.end();) {
    std::size_t bytes = 0;
    Request*& on_leg = at->second.on_leg;
    const Outcome outcome = on_leg != nullptr ? leg_->test(on_leg, bytes) : Outcome::kPending;
    if (outcome != Outcome::kPending) on_leg = nullptr;
    at = outcome == Outcome::kDone ? kept_.erase(at) : std::next(at);
  }
}

bool FailoverConnection::feed_receives() noexcept {
  bool fed = false;
  while (receives_.fed() < receives_.posted()) {
    Message* message = receives_.find(receives_.fed());
    if (message != nullptr && message->state == Message::State::kWaiting) {
      Connection* leg = leg_of_receive(receives_.fed());
      if (leg == nullptr || leg->error() != nullptr) break;
      Memory* memory = nullptr;
      guarded([&] { memory = memory_on(*leg, *message); });
      if (error_) return fed;
      message->on_leg = leg->post_receive({message->data, message->size}, memory);
      if (message->on_leg == nullptr) break;
      const bool retires = leg != leg_.get();
      message->state = retires ? Message::State::kOnRetiring : Message::State::kOnLeg;
      message->way = retires ? retiring_->way : way_;
      if (!retires) ++receives_on_leg_;
    }
    receives_.feed_on();
    fed = true;
  }
  return fed;
}

void FailoverConnection::finish_send(Message& message) noexcept {
  message.state = Message::State::kDone;
  message.bytes = message.size;
  counts_.bytes_sent += message.size;
  ++counts_.messages_sent;
}

void FailoverConnection::finish_receive(Message& message, std::size_t bytes) noexcept {
  message.state = Message::State::kDone;
  message.bytes = bytes;
  counts_.bytes_received += bytes;
  ++counts_.messages_received;
}

void FailoverConnection::deliver_early(Message& message) {
  const auto found = early_.find(message.sequence);
  if (found == early_.end()) return;
  const std::vector<std::byte>& bytes = found->second.bytes;
  if (bytes.size() > message.size) {
    give_up(Cause::kRemote,
            fmt::format("message {} has {} bytes, but the receive posted for it takes {} bytes",
                        message.sequence, bytes.size(), message.size));
    return;
  }
  if (!bytes.empty()) std::memcpy(message.data, bytes.data(), bytes.size());
  message.way = found->second.way;
  finish_receive(message, bytes.size());
  early_.erase(found);
}

// ---- testing

Outcome FailoverConnection::test(Request* request, std::size_t& bytes) noexcept {
  const Call call(*this);
  const bool is_send = sends_.owns(request);
  if (Flush* flush = is_send ? nullptr : flush_of(request)) {
    bytes = 0;
    return test_flush(*flush);
  }
  auto& message = *static_cast<Message*>(request);
  if (message.state != Message::State::kDone) {
    take_from_leg(message, is_send);
    // What else moves the leg may have completed this message: nothing would wake its owner.
    const bool again = message.state == Message::State::kWaiting || record_received_ != nullptr;
    if (message.state != Message::State::kDone && (turn(false) || again)) take_from_leg(message, is_send);
  }
  const bool done = message.state == Message::State::kDone;
  if (!done && !error_) return Outcome::kPending;
  // What was received over a leg is flushed by the owner as that leg needs it.
  if (done && moved_) show_route();
  bytes = done ? message.bytes : 0;
  (is_send ? sends_ : receives_).hand_back(message);
  return done ? Outcome::kDone : Outcome::kFailed;
}

/// Takes the message if the leg has done it, and moves the leg otherwise.
void FailoverConnection::take_from_leg(Message& message, bool is_send) noexcept {
  const bool retires = message.state == Message::State::kOnRetiring;
  if (!retires && (message.state != Message::State::kOnLeg || state_ != FailoverState::kUp)) return;
  std::size_t bytes = 0;
  switch ((retires ? retiring_->leg : leg_)->test(message.on_leg, bytes)) {
    case Outcome::kPending:
      return;
    case Outcome::kDone:
      is_send ? finish_send(message) : finish_receive(message, bytes);
      return;
    case Outcome::kFailed:
      message.state = Message::State::kWaiting;
      if (retires) retiring_->lost = true;
  }
}

/// Whether the leg still brings something for a message in this state, though it has failed: of what came
/// before the copies into a GPU may last. Takes what is done.
bool FailoverConnection::still_brings(Message::State on) noexcept {
  bool brings = false;
  for (FailoverWindow* window : {&sends_, &receives_}) {
    window->each(on, [&](Message& message) {
      take_from_leg(message, window == &sends_);
      brings |= message.state == on;
    });
  }
  return brings;
}

bool FailoverConnection::progress() noexcept {
  const Call call(*this);
  return move();
}

bool FailoverConnection::move() noexcept {
  if (error_) return false;
  return turn(leg_ != nullptr && leg_->progress());
}

bool FailoverConnection::look_due() noexcept {
  if (slept_ || state_ == FailoverState::kMoving) return true;
  const bool soon = returning_ || notice_ || arrived_ != nullptr || listener_->busy();
  if (!soon && ++calls_ % kTurnsPerClock != 0) return false;
  const TimePoint now = local().clock->now();
  if (now - looked_ < (soon ? kLookSoon : kLookEvery)) return false;
  looked_ = now;
  return true;
}

/// What is to be done besides moving the leg.
bool FailoverConnection::turn(bool moved) noexcept {
  if (error_) return moved;
  guarded([&] {
    const bool looks = look_due();
    slept_ = false;
    if (looks) look_for_arrivals();
    if (error_) return;
    if (looks && notice_) moved |= serve_notice();
    if (retiring_) moved |= serve_retiring();
    if (error_) return;
    if (state_ == FailoverState::kMoving) {
      moved |= make_next_leg();
      return;
    }
    if (record_received_ != nullptr || record_sent_ != nullptr) moved |= hear_record();
    if (state_ == FailoverState::kUp) {
      moved |= feed_sends();
      moved |= feed_receives();
      if (!kept_.empty()) look_at_kept();
    }
    if (looks && !error_ && state_ == FailoverState::kUp && absences_.any()) moved |= return_to_lost_nics();
    if (!error_ && leg_ != nullptr && leg_->error() != nullptr) leg_failed();
    if (!error_ && state_ == FailoverState::kAgreeing && patience_.passed())
      give_up(Cause::kTimeout, "the peer did not say over the new way what it has received");
  });
  return moved;
}

void FailoverConnection::append_wait_handles(std::vector<pollfd>& handles) const {
  const Turns::Turn look(turns_, Turns::Of::kLook);
  waits_ = slept_ = true;
  if (leg_ != nullptr) leg_->append_wait_handles(handles);
  if (attempt_ != nullptr) attempt_->append_wait_handles(handles);
  if (beside_ != nullptr) beside_->append_wait_handles(handles);
  if (retiring_) retiring_->leg->append_wait_handles(handles);
  if (notice_ && notice_->stream) notice_->stream->append_wait_handles(handles);
  if (!error_) listener_->append_wait_handles(handles);
  if (state_ == FailoverState::kUp && arrived_ == nullptr && !notice_) return;
  itimerspec at{};
  at.it_value.tv_nsec = error_ ? 1 : std::chrono::nanoseconds(kTick).count();
  kernel().timerfd_settime(timer_.get(), 0, &at, nullptr);
  handles.push_back({timer_.get(), POLLIN, 0});
}

RequestWay FailoverConnection::way_of(const Request* request) const noexcept {
  const Turns::Turn look(turns_, Turns::Of::kLook);
  const auto& message = *static_cast<const Message*>(request);
  // One that waits will take the next leg.
  const bool has_gone = message.way != nullptr && message.state != Message::State::kWaiting;
  RequestWay way{has_gone ? message.way : &route_, WaitsFor::kPeer};
  const bool on_leg = message.state == Message::State::kOnLeg && leg_ != nullptr;
  if (on_leg || message.state == Message::State::kOnRetiring)
    way.waits = (on_leg ? leg_ : retiring_->leg)->way_of(message.on_leg).waits;
  return way;
}

Statistics FailoverConnection::statistics() const noexcept {
  const Turns::Turn look(turns_, Turns::Of::kLook);
  Statistics all = leg_ != nullptr ? leg_->statistics() : Statistics{};
  all.connection = counts_.connection;
  all.bytes_sent = counts_.bytes_sent;
  all.bytes_received = counts_.bytes_received;
  all.messages_sent = counts_.messages_sent;
  all.messages_received = counts_.messages_received;
  add_to(all, counts_);
  if (retiring_) add_to(all, retiring_->leg->statistics());
  return all;
}

}  // namespace tombolo::transport
