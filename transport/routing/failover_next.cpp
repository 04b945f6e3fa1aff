// The next leg of a connection: how it is found when one has failed, and how a better one is made beside it.
#include <algorithm>
#include <utility>

#include "transport/bootstrap/acceptor.h"
#include "transport/resumable.h"
#include "transport/routing/failover_connection.h"

namespace tombolo::transport {
namespace {

// An attempt to connect may take so long, of which RDMA takes up to half for its test writes.
constexpr Duration kLongestAttempt = std::chrono::seconds(10);
// Nobody waits for one to return, and both ends may call rarely.
constexpr Duration kLongestReturn = std::chrono::seconds(30);
constexpr Duration kPause = std::chrono::milliseconds(100);
// The NICs are looked at so often in the time for which they have to be ready.
constexpr int kLooks = 10;

}  // namespace

/// Takes what the peer has connected to this connection's own listener.
void FailoverConnection::look_for_arrivals() {
  while (auto arrived = listener_->accept()) {
    if (connecting()) {
      hear_of_failure(arrived->label());
      if (error_) return;
      continue;
    }
    if ((arrived->label() & kNoticeBit) != 0) {
      hear_notice(arrived->label());
      if (error_) return;
      continue;
    }
    const auto number_of = [](const Connection& one) { return one.label() & kNumberBits; };
    if (arrived_ == nullptr || number_of(*arrived) > number_of(*arrived_)) arrived_ = std::move(arrived);
  }
  if (arrived_ != nullptr) take_arrival();
}

/// Accepting end: goes over to what the peer has connected, or lets that wait.
void FailoverConnection::take_arrival() {
  const std::uint64_t number = arrived_->label() & kNumberBits;
  const bool beside = (arrived_->label() & kBesideBit) != 0;
  // The peer still uses the present one where that stays.
  if (number <= std::max(leg_number_, least_number_) ||
      (beside && leg_ != nullptr && !why_it_stays().empty()))
    return arrived_.reset();
  if (leg_ != nullptr && leg_->resumable() == nullptr && state_ == FailoverState::kUp) {
    if (!beside)
      return give_up(Cause::kRemote, "the peer has left a way on which messages may be that count as sent");
    if (!may_retire_leg()) return;
    retire_leg();
  } else {
    if (leg_ != nullptr && beside && leg_->resumable() == nullptr) return;
    if (leg_ != nullptr && beside)
      leave_leg(kReturns);
    else if (leg_ != nullptr)
      lose_leg(Cause::kRemote, "the peer has left this way");
    if (error_ || retiring_) return;  // two cannot be staged at a time
  }
  leg_number_ = number;
  attempt_.reset();
  become(FailoverEvent::kLegMade);
  begin_leg(std::move(arrived_));
}

/// Connecting end: the label of a stream says which leg has failed, and which of its pairs of NICs.
void FailoverConnection::hear_of_failure(std::uint64_t label) {
  const std::uint64_t number = label & kNumberBits;
  if (number < leg_number_ || number > most_number_ || leg_ == nullptr) return;
  if (number > leg_number_) {
    // One beside the present leg, which the peer has left for it.
    drop_beside();
    if (leg_->resumable() != nullptr) leave_leg("the peer says that its end of the better way has failed");
    return;
  }
  if (leg_->resumable() == nullptr) return;
  leg_->resumable()->peer_says_failed(label >> kFailedPairsShift);
  lose_leg(Cause::kRemote, "the peer says that its end of the way has failed");
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
    if (beside_ != nullptr) {  // the peer has left the last leg for it
      leg_number_ = beside_->label() & kNumberBits;
      become(FailoverEvent::kLegMade);
      std::swap(record_in_, beside_in_);
      begin_leg(std::move(beside_), std::exchange(beside_record_, nullptr));
      returning_.reset();
      return true;
    }
    if (retiring_) {  // two cannot be staged at a time
      if (patience_.passed())
        give_up(Cause::kTimeout, "the last way failed before the one before had brought its messages");
      return false;
    }
    if (attempt_ == nullptr) {
      if (now < try_again_) return false;
      begin_attempt();
    }
    auto leg = attempt_->poll();
    if (!leg) return false;
    attempt_.reset();
    returning_.reset();
    leg_number_ = leg->label() & kNumberBits;
    become(FailoverEvent::kLegMade);
    begin_leg(std::move(leg));
    return true;
  } catch (const Error& error) {
    attempt_.reset();
    if (returning_) {
      drop_beside();
      return false;
    }
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

void FailoverConnection::begin_attempt() {
  ConnectOptions options = options_;
  options.deadline = std::min(kLongestAttempt, patience_.remaining());
  std::vector<bootstrap::Way> ways = maker_.ways->to(peer_, options, absences_.away());
  for (bootstrap::Way& way : ways) way.options.label = ++most_number_;
  attempt_ = std::make_unique<BestConnecting>(maker_.acceptor, std::move(ways));
}

std::vector<bootstrap::Way> FailoverConnection::ways_that_tell(const ConnectOptions& options) const {
  std::vector<bootstrap::Way> ways = maker_.ways->to(peer_, options, absences_.away());
  std::erase_if(ways, [](const bootstrap::Way& way) { return way.carrier != Carrier::kTcp; });
  return ways;
}

std::unique_ptr<Connecting> FailoverConnection::stream_that_tells(std::uint64_t label, Duration time) {
  ConnectOptions options = options_;
  options.label = label;
  options.deadline = std::min(kLongestAttempt, time);
  std::vector<bootstrap::Way> ways = ways_that_tell(options);
  if (ways.empty()) return nullptr;
  return std::make_unique<BestConnecting>(maker_.acceptor, std::move(ways));
}

/// Has the connecting end notice that the leg has failed: it may only receive, and then notices nothing.
/// Throws kRemote where that end has given up.
void FailoverConnection::tell_peer() {
  if (attempt_ == nullptr) attempt_ = stream_that_tells(failed_label_, patience_.remaining());
  if (attempt_ == nullptr || !attempt_->poll()) return;
  attempt_.reset();
  try_again_ = local().clock->now() + kAskAgain;
}

// ---- a better leg beside the present one

/// kUp, where NICs have failed before. True if anything moved.
bool FailoverConnection::return_to_lost_nics() {
  if (!connecting() || !peer_known_ || retiring_ || notice_) return false;
  const TimePoint now = local().clock->now();
  if (beside_ != nullptr) return look_at_beside();
  try {
    if (attempt_ == nullptr && !begin_return(now)) return false;
    beside_ = attempt_->poll();
    if (!beside_) return false;
    attempt_.reset();
    beside_patience_ = Deadline::after(kLongestReturn, *local().clock);
    beside_record_ = beside_->post_receive(beside_in_);
    TOMBOLO_CHECK(beside_record_ != nullptr, "a fresh {} connection is full", beside_->route().transport);
  } catch (const Error& error) {
    local().log.trace("{}: it does not return yet: {}", description_, error.what());
    drop_beside();
  }
  return true;
}

/// False where there is nothing to begin.
bool FailoverConnection::begin_return(TimePoint now) {
  if (now < look_again_ || !why_it_stays().empty()) return false;
  // It may have to be told apart whether this end has gone over.
  if (leg_->resumable() == nullptr && (!may_retire_leg() || ways_that_tell(options_).empty())) return false;
  look_again_ = now + maker_.return_after / kLooks;
  returning_ = absences_.due(now, [&](const std::string& nic) { return maker_.ways->ready(nic); });
  if (!returning_) return false;
  ConnectOptions options = options_;
  options.deadline = kLongestReturn;
  options.label = ++most_number_ | kBesideBit;
  std::vector<bootstrap::Way> ways = maker_.ways->to(peer_, options, absences_.away(returning_));
  ways.erase(ways.begin() + 1, ways.end());
  const bool there =
      ways.front().route.resumable && std::ranges::any_of(ways.front().nic_pairs, [&](const auto& pair) {
        return NicPairName{pair.first.nic, pair.second.address} == *returning_;
      });
  if (!there) {
    drop_beside();
    return false;
  }
  ways.front().whole = true;
  attempt_ = std::make_unique<BestConnecting>(maker_.acceptor, std::move(ways));
  return true;
}

/// The peer's record comes once its end has left the present leg. True if anything moved.
bool FailoverConnection::look_at_beside() {
  std::size_t bytes = 0;
  const Outcome outcome = beside_->test(beside_record_, bytes);
  const bool waits = beside_->error() == nullptr && !beside_patience_.passed();
  if (outcome == Outcome::kPending && waits) return false;
  if (outcome != Outcome::kDone) {
    if (outcome == Outcome::kFailed) beside_record_ = nullptr;
    drop_beside();
    return true;
  }
  if (leg_->resumable() == nullptr)
    retire_leg();
  else
    leave_leg(kReturns);
  if (error_) return true;
  leg_number_ = beside_->label() & kNumberBits;
  become(FailoverEvent::kLegMade);
  std::swap(record_in_, beside_in_);
  begin_leg(std::move(beside_), std::exchange(beside_record_, nullptr));
  record_received_ = nullptr;
  returning_.reset();
  take_record(bytes);
  return true;
}

/// Ends the try to return, if there is one.
void FailoverConnection::drop_beside() noexcept {
  const bool asked = leg_ != nullptr && leg_->resumable() == nullptr && !retiring_ && !error_ &&
                     (attempt_ != nullptr || beside_ != nullptr);
  if (asked) guarded([&] { notify(most_number_, false); });
  if (returning_) absences_.tried_in_vain(*returning_, local().clock->now());
  returning_.reset();
  attempt_.reset();
  beside_.reset();
  beside_record_ = nullptr;
}

}  // namespace tombolo::transport
