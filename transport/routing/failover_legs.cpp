// The legs of a connection: how one is left, and how the next is found.
#include <algorithm>

#include "base/units.h"
#include "transport/bootstrap/acceptor.h"
#include "transport/resumable.h"
#include "transport/routing/failover_connection.h"

namespace tombolo::transport {
namespace {

// After this many idle timeouts a peer whose owner makes no calls is given up, as in all transports.
constexpr int kOwnersFactor = 10;
// The error names the last failures, of so many characters.
constexpr std::size_t kMostHistory = 2000;

}  // namespace

// ---- a leg begins

/// A copy of what a leg says of itself, to which messages refer when the leg has gone.
const Route* FailoverConnection::keep_way(const Route& route) {
  const auto same = [&](const Route& kept) {
    return kept.transport == route.transport && kept.local_nic == route.local_nic &&
           kept.peer_nic == route.peer_nic && kept.peer_address == route.peer_address;
  };
  const auto found = std::ranges::find_if(ways_, same);
  return found != ways_.end() ? &*found : &ways_.emplace_back(route);
}

/// `record_received`: the receive of the peer's record, where one is posted on the leg already.
void FailoverConnection::begin_leg(std::unique_ptr<Connection> leg, Request* record_received) {
  // The two ends have answered alike whether they stage, and such a leg is no NICs' at either.
  leg_ = staging_ != nullptr && !leg->route().reaches_gpu_memory ? staging_->stage(std::move(leg))
                                                                 : std::move(leg);
  if (Resumable* way = leg_->resumable(); way != nullptr && staging_ != nullptr) way->let_gpu_memory_move();
  begun_ = local().clock->now();
  moved_ = true;
  way_ = keep_way(leg_->route());
  memories_.use(leg_.get());
  record_out_ = record().encode();
  record_received_ = record_received != nullptr ? record_received : leg_->post_receive(record_in_);
  receives_on_leg_ = 1;
  record_sent_ = leg_->post_send(record_out_);
  patience_ = Deadline::after(local().idle_timeout * kOwnersFactor, *local().clock);
  TOMBOLO_CHECK(record_received_ != nullptr && record_sent_ != nullptr, "a fresh {} connection is full",
                leg_->route().transport);
}

/// What this end has received. No leg may be writing to a receive.
FailoverRecord FailoverConnection::record() {
  FailoverRecord record;
  record.endpoint = listener_->endpoint();
  if (retiring_) {  // what it was given comes over it, and nothing goes again
    record.prefix = retiring_->sends_end;
    return record;
  }
  const auto has = [&](std::uint64_t sequence) {
    return receives_.done(sequence) || early_.contains(sequence);
  };
  record.prefix = receives_.oldest();
  while (has(record.prefix)) ++record.prefix;
  for (std::size_t i = 0; i < FailoverRecord::kBits; ++i) record.beyond[i] = has(record.prefix + i);
  return record;
}

/// True if the record has come.
bool FailoverConnection::hear_record() {
  std::size_t bytes = 0;
  if (record_sent_ != nullptr && leg_->test(record_sent_, bytes) != Outcome::kPending) record_sent_ = nullptr;
  if (record_received_ == nullptr) return false;
  const Outcome outcome = leg_->test(record_received_, bytes);
  if (outcome == Outcome::kPending) return false;
  record_received_ = nullptr;
  if (outcome == Outcome::kFailed) return false;
  take_record(bytes);
  return true;
}

/// record_in_ holds it.
void FailoverConnection::take_record(std::size_t bytes) {
  const FailoverRecord heard = FailoverRecord::decode(std::span(record_in_).first(bytes));
  // The connecting end knows the names of the peer's NICs besides, which the record leaves out.
  if (connecting())
    peer_.listener = heard.endpoint.listener;
  else
    peer_ = heard.endpoint;
  peer_known_ = true;
  if (state_ == FailoverState::kAgreeing)
    agree(heard);
  else if (retiring_ && !retiring_->receives_end)
    retire_from(heard.prefix);  // it was the last that came over the leg that failed
}

/// Both ends know now what is still to come.
void FailoverConnection::agree(const FailoverRecord& heard) {
  if (retiring_) return agree_on_ends(heard);
  const std::uint64_t posted = sends_.posted();
  bool sound = heard.prefix <= posted;
  for (std::size_t i = 0; i < FailoverRecord::kBits && sound; ++i)
    sound = !heard.beyond[i] || heard.prefix + i < posted;
  if (!sound)
    fail(Cause::kRemote, "{}: the peer says that it has received messages that were never sent",
         description_);
  std::uint64_t again = 0, first = std::min(heard.prefix, sends_.oldest());
  if (!kept_.empty()) first = std::min(first, kept_.begin()->first);
  for (std::uint64_t sequence = first; sequence < posted; ++sequence) {
    Message* message = sends_.find(sequence);
    if (heard.has(sequence)) {
      kept_.erase(sequence);
      if (message != nullptr && message->state != Message::State::kDone) finish_send(*message);
      continue;
    }
    if (message == nullptr && kept_.contains(sequence)) {
      ++again;
      continue;
    }
    if (message == nullptr) {
      fail(Cause::kSystem,
           "{}: message {} is lost: the peer's NIC acknowledged it, and failed before it had delivered it",
           description_, sequence);
    }
    if (message->state == Message::State::kDone) {
      --counts_.messages_sent;
      counts_.bytes_sent -= message->size;
    }
    message->state = Message::State::kWaiting;
    kept_.erase(sequence);  // its own buffer is still there
    ++again;
  }
  sends_.rewind(first);
  heard_ = heard;
  agreed(again);
}

/// `again`: how many messages go once more.
void FailoverConnection::agreed(std::uint64_t again) {
  become(FailoverEvent::kAgreed);
  ++moves_;
  if (Resumable* way = leg_->resumable())
    for (const Resumable::PairOfNics& pair : way->nic_pairs())
      absences_.returned({pair.nic, pair.peer_address}, local().clock->now());
  ++counts_.rejoins;
  counts_.replayed += again;
  const TimePoint now = local().clock->now();
  const auto span = [](Duration time) { return format_seconds(to_seconds(time)); };
  local().log.warning(
      "{}: goes on over {}{}, {} -> {}, {} later: {} until the last way was stopped, {} until this one was "
      "there, {} until both ends knew what is missing; messages to send again: {}. It moved because {}",
      description_, leg_->route().transport, as_kind(leg_->route()), leg_->route().local_nic,
      leg_->route().peer_nic, span(now - since_), span(stopped_ - since_), span(begun_ - stopped_),
      span(now - begun_), again, moved_because_);
}

// ---- a leg ends

void FailoverConnection::leg_failed() {
  const Error error = *leg_->error();
  const Resumable* way = leg_->resumable();
  // Over a leg on which the ends have not agreed yet, nothing has gone that could be lost.
  const bool another = (way != nullptr && way->path_failed()) || state_ == FailoverState::kAgreeing;
  if (!another) {
    // What the peer sent before it closed is still to be had, also over the leg that retires.
    if (!last_words_) last_words_ = Deadline::after(kLastWords, *local().clock);
    const bool retires =
        retiring_ && (retiring_->leg->error() == nullptr || still_brings(Message::State::kOnRetiring));
    if ((retires || still_brings(Message::State::kOnLeg)) && !last_words_->passed()) return;
    return give_up(error.cause(), error.what() + why_it_stays());
  }
  peer_knows_ = error.cause() == Cause::kRemote;
  lose_leg(error.cause(), error.what());
}

std::string FailoverConnection::why_it_stays() {
  const std::string why = memories_.why_gpu_memory_stays();
  return why.empty() ? why : "; it does not go on over another way, since " + why;
}

/// The leg has failed. It offers Resumable, or the ends have not agreed over it.
void FailoverConnection::lose_leg(Cause cause, const std::string& why) {
  if (const std::string stays = why_it_stays(); !stays.empty()) return give_up(cause, why + stays);
  const Resumable* way = leg_->resumable();
  const std::vector<Resumable::PairOfNics> pairs =
      way != nullptr ? way->nic_pairs() : std::vector<Resumable::PairOfNics>();
  const bool known = std::ranges::any_of(pairs, &Resumable::PairOfNics::failed);
  // The peer leaves it first for the one that this end makes beside it, which then goes on.
  if (!known && returning_) return leave_leg(kReturns);
  history_ += fmt::format("; leg {} over {}, {} -> {}: {}", leg_number_, leg_->route().transport,
                          leg_->route().local_nic, leg_->route().peer_nic, why);
  if (history_.size() > kMostHistory)
    history_.erase(0, history_.find("; leg", history_.size() - kMostHistory));
  note_failed_nics(pairs, known);
  local().log.warning("{}: {}; it goes on over another way", description_, why);
  ++counts_.breaks;
  leave_leg(why);
  // The peer may not have heard over it that this end has gone over.
  if (connecting() && retiring_) notify(leg_number_, true);
  if (connecting() && !peer_known_)
    give_up(cause,
            "it cannot go on over another way: the peer's build says whereto in its first message alone, and "
            "that had not come; use one version on every host");
}

/// Where it is not `known` which of the pairs have failed, all may have.
void FailoverConnection::note_failed_nics(const std::vector<Resumable::PairOfNics>& pairs, bool known) {
  failed_label_ = leg_number_;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i].failed) failed_label_ |= std::uint64_t{1} << (kFailedPairsShift + i);
    if (pairs[i].failed || !known)
      absences_.failed({pairs[i].nic, pairs[i].peer_address}, local().clock->now());
  }
  drop_beside();
  attempt_.reset();
}

void FailoverConnection::leave_leg(const std::string& why) {
  if (state_ == FailoverState::kUp) {
    moved_because_ = why;
    since_ = local().clock->now();
    // The connecting end finds out by itself whether the peer's host is there. The other waits for what that
    // end's owner does, who may compute for long.
    // So does a leg that still retires.
    const int factor = connecting() && !retiring_ ? 1 : kOwnersFactor;
    patience_ = Deadline::after(local().idle_timeout * factor, *local().clock);
  }
  become(FailoverEvent::kLegLost);
  drop_leg();
  stopped_ = local().clock->now();
  try_again_ = connecting() || !peer_knows_ ? TimePoint{} : local().clock->now() + kAskAgain;
}

/// Ends the leg. Afterwards nothing touches the buffers of what is not done.
void FailoverConnection::drop_leg() noexcept {
  if (leg_ == nullptr) return;
  std::vector<NumberedMessage> early, unsure;
  // Where one message cannot be kept for a lack of memory, those behind it must not take its place.
  bool kept_all = true;
  const auto keep = [&kept_all](const auto& step) {
    if (kept_all) transport::guarded(step, [&](Cause, std::string_view) noexcept { kept_all = false; });
  };
  const auto note_in = [&keep](auto& list) {
    return [&keep, &list](std::uint64_t sequence, std::span<const std::byte> bytes) {
      keep([&] { list.emplace_back(sequence, std::vector<std::byte>(bytes.begin(), bytes.end())); });
    };
  };
  Resumable* way = leg_->resumable();
  std::optional<Error> missing;
  if (way != nullptr && (state_ == FailoverState::kMoving || way->path_failed()))
    missing = way->fence(note_in(early), note_in(unsure));
  collect(sends_);
  collect(receives_);
  collect_kept();
  // The first is the record.
  keep([&] {
    for (auto& [sequence, bytes] : unsure)
      if (sequence > 0) kept_[heard_.lacking(sequence - 1)].bytes = std::move(bytes);
  });
  // The peer's record may be among what has come last.
  if (state_ == FailoverState::kMoving) guarded([&] { hear_record(); });
  if (state_ == FailoverState::kMoving) end_flushes();
  if (leg_ == nullptr) return;  // one of them has given up
  // The first is the record, without which they have no place if the peer has gone over.
  if (retiring_ && !retiring_->receives_end)
    retiring_->unplaced = std::move(early);
  else
    keep([&] { place_early(early); });
  if (leg_ == nullptr) return;  // one of them was too large for its receive
  sends_.rewind();
  receives_.rewind();
  add_to(counts_, leg_->statistics());
  memories_.use(nullptr);
  record_sent_ = record_received_ = nullptr;
  leg_.reset();
  if (missing) give_up(missing->cause(), missing->what());
  if (!kept_all) give_up(Cause::kSystem, "there is no memory for what had come over the way that was left");
}

/// What a leg counts beside payload.
void FailoverConnection::add_to(Statistics& all, const Statistics& leg) noexcept {
  all.send_stalls += leg.send_stalls;
  all.receive_stalls += leg.receive_stalls;
  all.send_stalled += leg.send_stalled;
  all.receive_stalled += leg.receive_stalled;
  all.retransmitted += leg.retransmitted;
  all.replayed += leg.replayed;
  all.breaks += leg.breaks;
  all.rejoins += leg.rejoins;
}

/// Makes sure that GPUs see what the NICs have written, which no other way can do for these.
void FailoverConnection::end_flushes() noexcept {
  if (staging_ == nullptr || !memories_.any_gpu_memory() || !leg_->route().reaches_gpu_memory) return;
  guarded([&] { staging_->flush_nic_writes(); });
  for (Flush& flush : flushes_)
    if (!error_ && flush.state != Flush::State::kFree) flush.state = Flush::State::kDone;
}

/// Takes what the leg has done; the rest waits for the next one.
void FailoverConnection::collect(FailoverWindow& window) noexcept {
  for (std::uint64_t sequence = window.oldest(); sequence < window.posted(); ++sequence) {
    Message* message = window.find(sequence);
    if (message == nullptr || message->state != Message::State::kOnLeg) continue;
    std::size_t bytes = 0;
    message->state = Message::State::kWaiting;
    if (leg_->test(message->on_leg, bytes) == Outcome::kDone)
      &window == &sends_ ? finish_send(*message) : finish_receive(*message, bytes);
  }
}

void FailoverConnection::collect_kept() noexcept {
  look_at_kept();
  for (auto& [sequence, kept] : kept_) kept.on_leg = nullptr;
}

/// Keeps what came over a leg and lacks a receive, by its numbers there.
void FailoverConnection::place_early(const std::vector<NumberedMessage>& early) {
  std::uint64_t taken = 0;
  for (const auto& [sequence, bytes] : early)
    if (sequence >= receives_on_leg_) keep_early(sequence - receives_on_leg_ - taken++, bytes);
}

/// Keeps the message that would have gone into the receive which is `place` places behind those on the leg,
/// counted without the messages that are here already.
void FailoverConnection::keep_early(std::uint64_t place, std::span<const std::byte> bytes) {
  const auto here = [&](std::uint64_t sequence) {
    return receives_.done(sequence) || early_.contains(sequence);
  };
  std::uint64_t sequence = receives_.fed();
  if (retiring_) sequence = std::max(sequence, retiring_->receives_end.value_or(0));
  for (;; ++sequence) {
    if (here(sequence)) continue;
    if (place-- == 0) break;
  }
  early_[sequence] = {{bytes.begin(), bytes.end()}, way_};
  if (Message* message = receives_.find(sequence)) deliver_early(*message);
}

void FailoverConnection::give_up(Cause cause, std::string_view why) noexcept {
  if (error_) return;
  error_.emplace(texts_.error(cause, {why, history_.empty() ? "" : "; before that", history_}));
  state_ = *next_state(state_, FailoverEvent::kGivenUp);
  trace_failure(local().log, *error_);
  attempt_.reset();
  arrived_.reset();
  drop_beside();
  drop_leg();
  drop_retiring();
  notice_.reset();
  listener_.reset();  // a peer that is still at it hears that the connection is gone
}

}  // namespace tombolo::transport
