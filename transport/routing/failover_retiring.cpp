// How a leg that cannot say which messages have come is left for a better one while both work. It is what was
// staged: which of a message's pieces have come only its own end knows.
//
// Either end says in its record over the new leg where its sends change over: those before go over the leg
// that retires, in their order, and the others over the new one. A receive goes where the peer's send of that
// number does. So both are in use until the first has brought its part, nothing goes again, and nobody waits
// for a message that another one waits for. That leg may fail as long as it is needed, and then the
// connection has failed.
#include <algorithm>
#include <utility>

#include "transport/bootstrap/acceptor.h"
#include "transport/routing/failover_connection.h"

namespace tombolo::transport {
/// What was sent over the leg belongs to messages that were agreed upon, and nothing else is under way there.
bool FailoverConnection::may_retire_leg() const noexcept {
  return state_ == FailoverState::kUp && !retiring_ && kept_.empty() && record_sent_ == nullptr &&
         record_received_ == nullptr &&
         std::ranges::none_of(flushes_, [](const Flush& one) { return one.state == Flush::State::kOnLeg; });
}

/// The new leg begins next.
void FailoverConnection::retire_leg() {
  TOMBOLO_CHECK(may_retire_leg(), "state={}", to_text(state_));
  moved_because_ = kReturns;
  since_ = stopped_ = local().clock->now();
  become(FailoverEvent::kLegLost);
  retiring_.emplace();
  retiring_->leg = std::move(leg_);
  retiring_->way = way_;
  retiring_->number = leg_number_;
  retiring_->sends_end = sends_.fed();
  for (FailoverWindow* window : {&sends_, &receives_})
    window->each(Message::State::kOnLeg, [](Message& one) { one.state = Message::State::kOnRetiring; });
  memories_.retire_leg();
}

void FailoverConnection::agree_on_ends(const FailoverRecord& heard) {
  retire_from(heard.prefix);
  // What has gone over a leg that failed before needs no place on the new one.
  FailoverRecord numbered;
  numbered.prefix = retiring_->sends_end;
  for (std::size_t i = 0; i < FailoverRecord::kBits; ++i)
    numbered.beyond[i] = heard_.has(numbered.prefix + i);
  heard_ = numbered;
  agreed(0);
}

/// The peer's sends change over at `end`: the leg that retires brings nothing for the receives from there on,
/// and touches their buffers no more.
void FailoverConnection::retire_from(std::uint64_t end) {
  retiring_->receives_end = end;
  for (std::uint64_t sequence = std::max(end, receives_.oldest()); sequence < receives_.posted();
       ++sequence) {
    Message* message = receives_.find(sequence);
    if (message == nullptr || message->state != Message::State::kOnRetiring) continue;
    message->state = Message::State::kWaiting;
    // The first takes the peer's farewell, which is empty.
    if (retiring_->farewell_in == nullptr) retiring_->farewell_in = message->on_leg;
  }
  receives_.rewind(end);
  place_early(std::exchange(retiring_->unplaced, {}));
}

// ---- the new leg fails before both ends have gone over to it

/// Connecting end, of the leg of that number, which is gone.
void FailoverConnection::notify(std::uint64_t number, bool went_over) {
  const std::uint64_t end =
      went_over ? kWentOverBit | (retiring_->sends_end & kEndBits) << kEndShift : std::uint64_t{0};
  notice_.emplace();
  notice_->label = kNoticeBit | end | (number & kNumberBits);
}

/// True if anything moved.
bool FailoverConnection::serve_notice() {
  const TimePoint now = local().clock->now();
  if (now < notice_->try_again) return false;
  try {
    if (notice_->stream == nullptr) notice_->stream = stream_that_tells(notice_->label, kAskAgain);
    if (notice_->stream != nullptr && notice_->stream->poll() == nullptr) return false;
    notice_.reset();
  } catch (const Error& error) {
    local().log.trace("{}: the peer is not told yet which way is used: {}", description_, error.what());
    notice_->stream.reset();
    notice_->try_again = now + kAskAgain / 10;
  }
  return true;
}

/// Accepting end.
void FailoverConnection::hear_notice(std::uint64_t label) {
  const std::uint64_t number = label & kNumberBits;
  const bool went_over = (label & kWentOverBit) != 0;
  if (!went_over) least_number_ = std::max(least_number_, number);
  if (!retiring_ || retiring_->receives_end || number != leg_number_) return;
  if (leg_ != nullptr) lose_leg(Cause::kRemote, "the peer has left this way");
  if (error_ || retiring_->receives_end) return;
  if (!went_over) return take_leg_back();
  // All that this end has received came over the leg that retires, but for what came early before.
  const std::uint64_t before = 2 * kRequestsPerDirection,
                      least = receives_.oldest() > before ? receives_.oldest() - before : 0;
  retire_from(least + (((label >> kEndShift) - least) & kEndBits));
}

/// Accepting end: the peer has not gone over, and uses the leg that was to retire.
void FailoverConnection::take_leg_back() {
  become(FailoverEvent::kLegMade);
  leg_ = std::move(retiring_->leg);
  way_ = retiring_->way;
  leg_number_ = retiring_->number;
  for (FailoverWindow* window : {&sends_, &receives_})
    window->each(Message::State::kOnRetiring, [](Message& one) { one.state = Message::State::kOnLeg; });
  memories_.take_back(leg_.get());
  retiring_.reset();
  attempt_.reset();
  moved_ = true;
  become(FailoverEvent::kAgreed);
  local().log.warning("{}: stays on {}, for the better way failed as it was made", description_,
                      leg_->route().transport);
}

// ---- while two are in use

/// True if anything moved.
bool FailoverConnection::serve_retiring() noexcept {
  bool moved = retiring_->leg->progress();
  if (state_ != FailoverState::kUp) moved |= feed_receives();
  if (error_) return true;
  const RetiringLeg& old = *retiring_;
  const bool brings = still_brings(Message::State::kOnRetiring);
  const bool over = !brings && !old.lost && old.receives_end && receives_.fed() >= *old.receives_end;
  const Error* error = old.leg->error();
  if (over && (error != nullptr || say_farewell())) {
    drop_retiring();
    // The next leg could not be made meanwhile.
    if (state_ == FailoverState::kMoving) patience_ = Deadline::after(local().idle_timeout, *local().clock);
    return true;
  }
  if (error == nullptr || over) return moved;
  if (!last_words_) last_words_ = Deadline::after(kLastWords, *local().clock);
  if (brings && !old.lost && !last_words_->passed()) return moved;
  guarded([&] {
    give_up(error->cause(),
            fmt::format("{}; the connection was leaving that way for a better one", error->what()));
  });
  return moved;
}

/// This end has all that was to come over the leg that retires. True once the other one has, too.
bool FailoverConnection::say_farewell() noexcept {
  // The accepting end's goes first: while that end does not know where its receives change over, one of them
  // would take the other's for a message.
  RetiringLeg& old = *retiring_;
  for (; old.farewells < 2; ++old.farewells) {
    const bool sends = connecting() == (old.farewells == 1);
    Request*& farewell = sends ? old.farewell_out : old.farewell_in;
    if (farewell == nullptr) farewell = sends ? old.leg->post_send({}) : old.leg->post_receive({});
    std::size_t bytes = 0;
    if (farewell == nullptr || old.leg->test(farewell, bytes) != Outcome::kDone) return false;
  }
  return true;
}

/// Ends the leg that retires, if there is one, and takes what it has done. Afterwards it touches no buffer.
void FailoverConnection::drop_retiring() noexcept {
  if (!retiring_) return;
  still_brings(Message::State::kOnRetiring);
  for (FailoverWindow* window : {&sends_, &receives_})
    window->each(Message::State::kOnRetiring, [](Message& one) { one.state = Message::State::kWaiting; });
  add_to(counts_, retiring_->leg->statistics());
  memories_.retired();
  retiring_.reset();
}

}  // namespace tombolo::transport
