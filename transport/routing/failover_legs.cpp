// The legs of a connection: how one is left, and how the next is found.
#include <algorithm>

#include "base/units.h"
#include "transport/bootstrap/acceptor.h"
#include "transport/resumable.h"
#include "transport/routing/failover_connection.h"

namespace tombolo::transport {
namespace {

// An attempt to connect may take so long, of which RDMA takes up to half for its test writes.
constexpr Duration kLongestAttempt = std::chrono::seconds(10);
constexpr Duration kPause = std::chrono::milliseconds(100);
// After this many idle timeouts a peer whose owner makes no calls is given up, as in all transports.
constexpr int kOwnersFactor = 10;
// The accepting end asks so often whether the other one is still at it.
constexpr Duration kAskAgain = std::chrono::seconds(1);

}  // namespace

// ---- a leg begins

void FailoverConnection::begin_leg(std::unique_ptr<Connection> leg) {
  leg_ = std::move(leg);
  moved_ = true;
  memories_.use(leg_.get());
  record_out_ = record().encode();
  record_received_ = leg_->post_receive(record_in_);
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
  const FailoverRecord heard = FailoverRecord::decode(std::span(record_in_).first(bytes));
  // The connecting end knows the names of the peer's NICs besides, which the record leaves out.
  if (connecting())
    peer_.listener = heard.endpoint.listener;
  else
    peer_ = heard.endpoint;
  peer_known_ = true;
  if (state_ == FailoverState::kAgreeing) agree(heard);
  return true;
}

/// Both ends know now what is still to come.
void FailoverConnection::agree(const FailoverRecord& heard) {
  const std::uint64_t posted = sends_.posted();
  bool sound = heard.prefix <= posted;
  for (std::size_t i = 0; i < FailoverRecord::kBits && sound; ++i)
    sound = !heard.beyond[i] || heard.prefix + i < posted;
  if (!sound)
    fail(Cause::kRemote, "{}: the peer says that it has received messages that were never sent",
         description_);
  std::uint64_t again = 0;
  for (std::uint64_t sequence = std::min(heard.prefix, sends_.oldest()); sequence < posted; ++sequence) {
    Message* message = sends_.find(sequence);
    if (heard.has(sequence)) {
      if (message != nullptr && message->state != Message::State::kDone) finish_send(*message);
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
    ++again;
  }
  sends_.rewind();
  become(FailoverEvent::kAgreed);
  ++moves_;
  ++counts_.rejoins;
  counts_.replayed += again;
  local().log.warning(
      "{}: goes on over {}{}, {} -> {}, {} later; messages to send again: {}. It moved because {}",
      description_, leg_->route().transport, as_kind(leg_->route()), leg_->route().local_nic,
      leg_->route().peer_nic, format_seconds(to_seconds(local().clock->now() - since_)), again,
      moved_because_);
}

// ---- a leg ends

void FailoverConnection::leg_failed() {
  const Error error = *leg_->error();
  const Resumable* way = leg_->resumable();
  // Over a leg on which the ends have not agreed yet, nothing has gone that could be lost.
  const bool another = way != nullptr && (way->path_failed() || state_ == FailoverState::kAgreeing);
  if (!another) return give_up(error.cause(), error.what() + why_it_stays());
  peer_knows_ = error.cause() == Cause::kRemote;
  lose_leg(error.cause(), error.what());
}

std::string FailoverConnection::why_it_stays() {
  return memories_.any_gpu_memory()
             ? "; it does not go on over another way, since GPU memory is registered with it"
             : "";
}

/// Leaves a leg that offers Resumable, for another.
void FailoverConnection::lose_leg(Cause cause, const std::string& why) {
  if (const std::string stays = why_it_stays(); !stays.empty()) return give_up(cause, why + stays);
  const bool fresh = state_ == FailoverState::kUp;
  history_ += fmt::format("; leg {} over {}, {} -> {}: {}", leg_number_, leg_->route().transport,
                          leg_->route().local_nic, leg_->route().peer_nic, why);
  for (std::string& nic : leg_->resumable()->nics())
    if (std::ranges::find(failed_nics_, nic) == failed_nics_.end()) failed_nics_.push_back(std::move(nic));
  local().log.warning("{}: {}; it goes on over another way", description_, why);
  if (fresh) {
    moved_because_ = why;
    since_ = local().clock->now();
    // The connecting end finds out by itself whether the peer's host is there. The other waits for what that
    // end's owner does, who may compute for long.
    patience_ = Deadline::after(local().idle_timeout * (connecting() ? 1 : kOwnersFactor), *local().clock);
  }
  become(FailoverEvent::kLegLost);
  drop_leg();
  if (connecting() && !peer_known_)
    return give_up(cause, "it cannot go on over another way: the peer had not said yet whereto");
  ++counts_.breaks;
  attempt_.reset();
  try_again_ = connecting() || !peer_knows_ ? TimePoint{} : local().clock->now() + kAskAgain;
}

/// Ends the leg. Afterwards nothing touches the buffers of what is not done.
void FailoverConnection::drop_leg() noexcept {
  if (leg_ == nullptr) return;
  std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> early;
  Resumable* way = leg_->resumable();
  if (way != nullptr && (state_ == FailoverState::kMoving || way->path_failed())) {
    way->fence([&](std::uint64_t sequence, std::span<const std::byte> bytes) {
      early.emplace_back(sequence, std::vector<std::byte>(bytes.begin(), bytes.end()));
    });
  }
  collect(sends_);
  collect(receives_);
  // The peer's record may be among what has come last.
  if (state_ == FailoverState::kMoving) guarded([&] { hear_record(); });
  std::uint64_t taken = 0;
  for (const auto& [sequence, bytes] : early)
    if (sequence >= receives_on_leg_) keep_early(sequence - receives_on_leg_ - taken++, bytes);
  sends_.rewind();
  receives_.rewind();
  const Statistics last = leg_->statistics();
  counts_.send_stalls += last.send_stalls;
  counts_.receive_stalls += last.receive_stalls;
  counts_.send_stalled += last.send_stalled;
  counts_.receive_stalled += last.receive_stalled;
  memories_.use(nullptr);
  record_sent_ = record_received_ = nullptr;
  leg_.reset();
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

/// Keeps the message that would have gone into the receive which is `place` places behind those on the leg,
/// counted without the messages that are here already.
void FailoverConnection::keep_early(std::uint64_t place, std::span<const std::byte> bytes) {
  const auto here = [&](std::uint64_t sequence) {
    return receives_.done(sequence) || early_.contains(sequence);
  };
  std::uint64_t sequence = receives_.fed();
  for (;; ++sequence) {
    if (here(sequence)) continue;
    if (place-- == 0) break;
  }
  early_[sequence].assign(bytes.begin(), bytes.end());
  if (Message* message = receives_.find(sequence)) deliver_early(*message);
}

void FailoverConnection::give_up(Cause cause, const std::string& why) noexcept {
  if (error_) return;
  error_.emplace(cause, history_.empty() ? why : why + "; before that" + history_);
  state_ = *next_state(state_, FailoverEvent::kGivenUp);
  local().log.trace("{}", error_->what());
  attempt_.reset();
  drop_leg();
  listener_.reset();  // a peer that is still at it hears that the connection is gone
}

// ---- the next leg

/// Takes what the peer has connected to this connection's own listener.
void FailoverConnection::look_for_arrivals() {
  while (auto arrived = listener_->accept()) {
    const std::uint64_t number = arrived->label();
    if (connecting()) {
      // The stream says by its label which leg has failed, and nothing else.
      if (number == leg_number_ && leg_ != nullptr && leg_->resumable() != nullptr)
        lose_leg(Cause::kRemote, "the peer says that its end of the way has failed");
      if (error_) return;
      continue;
    }
    if (number <= leg_number_) continue;
    if (leg_ != nullptr) {
      if (leg_->resumable() == nullptr)
        return give_up(Cause::kRemote, "the peer has left a way on which messages may be that count as sent");
      lose_leg(Cause::kRemote, "the peer has left this way");
      if (error_) return;
    }
    leg_number_ = number;
    attempt_.reset();
    become(FailoverEvent::kLegMade);
    begin_leg(std::move(arrived));
  }
}

/// kMoving. True if anything moved.
bool FailoverConnection::make_next_leg() {
  const TimePoint now = local().clock->now();
  try {
    if (!connecting()) {
      if (peer_known_ && now >= try_again_) tell_peer();
      if (patience_.passed()) give_up(Cause::kTimeout, "the peer made no other way");
      return false;
    }
    if (attempt_ == nullptr) {
      if (now < try_again_) return false;
      ConnectOptions options = options_;
      options.deadline = std::min(kLongestAttempt, patience_.remaining());
      std::vector<bootstrap::Way> ways = maker_.ways->to(peer_, options, failed_nics_);
      for (bootstrap::Way& way : ways) way.options.label = ++most_number_;
      attempt_ = std::make_unique<BestConnecting>(maker_.acceptor, std::move(ways));
    }
    auto leg = attempt_->poll();
    if (!leg) return false;
    attempt_.reset();
    leg_number_ = leg->label();
    become(FailoverEvent::kLegMade);
    begin_leg(std::move(leg));
    return true;
  } catch (const Error& error) {
    attempt_.reset();
    // Other causes do not go by themselves; a peer that has given up is among them.
    const bool again = error.cause() == Cause::kTimeout || error.cause() == Cause::kSystem;
    if (!again || patience_.passed()) {
      give_up(error.cause(), error.what());
      return true;
    }
    try_again_ = now + kPause;
    return false;
  }
}

/// Has the connecting end notice that the leg has failed: it may only receive, and then notices nothing.
/// Throws kRemote where that end has given up.
void FailoverConnection::tell_peer() {
  if (attempt_ == nullptr) {
    ConnectOptions options = options_;
    options.label = leg_number_;
    options.deadline = std::min(kLongestAttempt, patience_.remaining());
    std::vector<bootstrap::Way> ways = maker_.ways->to(peer_, options, failed_nics_);
    std::erase_if(ways, [](const bootstrap::Way& way) { return way.carrier != Carrier::kTcp; });
    if (ways.empty()) return;  // there is no way to say it
    attempt_ = std::make_unique<BestConnecting>(maker_.acceptor, std::move(ways));
  }
  if (!attempt_->poll()) return;
  attempt_.reset();
  try_again_ = local().clock->now() + kAskAgain;
}

// ---- where connections begin

namespace {

bool goes_on(Connection& connection) {
  return connection.route().resumable && connection.resumable() != nullptr;
}

class FailoverConnecting final : public Connecting {
 public:
  FailoverConnecting(std::unique_ptr<Connecting> beneath, LegMaker maker, Endpoint peer,
                     ConnectOptions options)
      : beneath_(std::move(beneath)),
        maker_(std::move(maker)),
        peer_(std::move(peer)),
        options_(std::move(options)) {}
  std::unique_ptr<Connection> poll() override {
    auto made = beneath_->poll();
    if (!made || !goes_on(*made)) return made;
    return std::make_unique<FailoverConnection>(std::move(made), maker_,
                                                FailoverConnection::Side::kConnecting, peer_, options_);
  }
  void append_wait_handles(std::vector<pollfd>& handles) const override {
    beneath_->append_wait_handles(handles);
  }

 private:
  std::unique_ptr<Connecting> beneath_;
  LegMaker maker_;
  Endpoint peer_;
  ConnectOptions options_;
};

class FailoverListener final : public Listener {
 public:
  FailoverListener(std::unique_ptr<Listener> beneath, LegMaker maker)
      : beneath_(std::move(beneath)), maker_(std::move(maker)) {}
  const Endpoint& endpoint() const noexcept override { return beneath_->endpoint(); }
  std::unique_ptr<Connection> accept() override {
    auto made = beneath_->accept();
    if (!made || !goes_on(*made)) return made;
    return std::make_unique<FailoverConnection>(std::move(made), maker_, FailoverConnection::Side::kAccepting,
                                                Endpoint(), ConnectOptions());
  }
  void append_wait_handles(std::vector<pollfd>& handles) const override {
    beneath_->append_wait_handles(handles);
  }

 private:
  std::unique_ptr<Listener> beneath_;
  LegMaker maker_;
};

}  // namespace

std::unique_ptr<Connecting> failing_over(std::unique_ptr<Connecting> connecting, LegMaker maker,
                                         const Endpoint& peer, const ConnectOptions& options) {
  return std::make_unique<FailoverConnecting>(std::move(connecting), std::move(maker), peer, options);
}

std::unique_ptr<Listener> failing_over(std::unique_ptr<Listener> listener, LegMaker maker) {
  return std::make_unique<FailoverListener>(std::move(listener), std::move(maker));
}

}  // namespace tombolo::transport
