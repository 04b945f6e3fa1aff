#include "transport/tcp/lifecycle/reconnector.h"

#include <algorithm>

namespace tombolo::transport::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// How long an attempt to open a stream may go unanswered by the peer's kernel before it is given up: this
// kernel would try again only after 1, 3 and 7 s. The handshake, which the peer's process answers, gets
// longer (kHandshake). Both times double with each failure.
constexpr Duration kAttempt = milliseconds(350);
constexpr unsigned kMostAttemptDoublings = 3;
// The pause between two attempts to open a broken stream. It grows to at most kSlowestRedial, because all
// others may wait for what that stream had under way; for a stream that never existed it grows to at most
// kSlowestFirst.
constexpr Duration kRedialAfter = milliseconds(20);
constexpr Duration kSlowestRedial = milliseconds(160);
constexpr Duration kSlowestFirst = seconds(5);
constexpr unsigned kMostPauseDoublings = 10;
// How long a stream stays away before it is brought back to its own NICs. It doubles each time that their
// path fell silent soon after, because such an attempt costs the time until a path is taken for dead.
constexpr Duration kHomeAgain = seconds(1);
constexpr unsigned kMostDoublings = 5;
// A path that falls silent within this time after its streams returned to it is avoided for longer each time.
constexpr Duration kStaysHome = seconds(10);

}  // namespace

void Reconnector::add(std::size_t stream, std::size_t home, std::uint32_t next_epoch) {
  grow(stream + 1);
  Plan& plan = plans_[stream];
  plan.home = plan.at = plan.next = home;
  plan.next_epoch = next_epoch;
}

std::optional<Reconnector::Attempt> Reconnector::begin(std::size_t stream, StreamState state,
                                                       std::size_t targets, TimePoint now) {
  Plan& plan = plans_[stream];
  if (now < plan.after) return std::nullopt;
  // A live stream over other NICs is tried over its own; a suspect one is tried over others first.
  if (state == StreamState::kSuspect) {
    if (plan.failures == 0) plan.next = (plan.at + 1) % targets;
  } else if (is_live(state)) {
    plan.next = plan.home;
  }
  plan.since = now;
  // Each attempt gets longer, because the path's round trip may be that long.
  return Attempt{plan.next, plan.next_epoch,
                 kAttempt * (1U << std::min(plan.failures, kMostAttemptDoublings))};
}

bool Reconnector::overdue(std::size_t stream, TimePoint now) const noexcept {
  const Plan& plan = plans_[stream];
  return now - plan.since > kHandshake * (1U << std::min(plan.failures, kMostDoublings));
}

void Reconnector::hurry(std::size_t stream, TimePoint now) noexcept {
  plans_[stream].after = std::min(plans_[stream].after, now + kRedialAfter);
}

void Reconnector::dropped(std::size_t stream, std::uint32_t epoch) noexcept {
  plans_[stream].next_epoch = std::max(plans_[stream].next_epoch, epoch + 1);
}

void Reconnector::not_accepted(std::size_t stream, std::uint32_t epoch) noexcept {
  plans_[stream].next_epoch = std::max(plans_[stream].next_epoch, epoch);
}

void Reconnector::failed(std::size_t stream, StreamState state, std::size_t targets, bool alone,
                         TimePoint now) noexcept {
  Plan& plan = plans_[stream];
  ++plan.failures;
  if (is_live(state) && state != StreamState::kSuspect) {
    plan.after = now + home_again(plan);
    return;
  }
  plan.next = (plan.next + 1) % targets;
  const Duration slowest = state == StreamState::kWanted ? kSlowestFirst : kSlowestRedial;
  const Duration grown = kRedialAfter * (1U << std::min(plan.failures, kMostPauseDoublings));
  plan.after = now + (alone ? kRedialAfter : std::min(grown, slowest));
}

void Reconnector::suspected(std::size_t stream) noexcept {
  plans_[stream].after = TimePoint{};
  plans_[stream].failures = 0;
}

bool Reconnector::lost(std::size_t stream, bool doubts_path, std::optional<std::size_t> other,
                       TimePoint now) noexcept {
  Plan& plan = plans_[stream];
  plan.after = TimePoint{};
  plan.failures = 0;
  std::size_t next = plan.at;
  if (doubts_path) {
    if (other) next = *other;
    if (!away(stream)) plan.home_breaks = now - plan.home_since < kStaysHome ? plan.home_breaks + 1 : 0;
  }
  const bool wrong = plan.next != next;
  plan.next = next;
  return wrong;
}

void Reconnector::joined(std::size_t stream, std::size_t at, std::uint32_t epoch, TimePoint now) noexcept {
  Plan& plan = plans_[stream];
  plan.at = at;
  plan.next_epoch = epoch + 1;
  plan.failures = 0;
  plan.after = now + home_again(plan);
  if (!away(stream)) plan.home_since = now;
}

Duration Reconnector::home_again(const Plan& plan) noexcept {
  return kHomeAgain * (1U << std::min(plan.home_breaks, kMostDoublings));
}

}  // namespace tombolo::transport::tcp
