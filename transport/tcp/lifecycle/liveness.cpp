#include "transport/tcp/lifecycle/liveness.h"

#include <algorithm>
#include <utility>

namespace tombolo::transport::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// When the peer's kernel has left packets unanswered for this long (or for four round trips), the path is
// taken for dead. A kernel sends a packet again after 200 ms at the earliest.
constexpr Duration kSilent = milliseconds(400);
// A kernel sends a packet again after this at the earliest; before that, silence cannot be told from waiting.
constexpr Duration kFirstRepeat = milliseconds(200);
// A connection that waits for its peer tests the path after this time, then after twice as long, and so on.
constexpr Duration kFirstPing = milliseconds(300);
// When the peer's kernel has ended all streams in order and without a goodbye, its process has died, or
// something between the two has cut them all. The peer gets the first of these times to show that it lives,
// or the second where this end cannot ask it.
constexpr Duration kEndedGrace = seconds(5);
constexpr Duration kEndedGraceUnasked = milliseconds(500);
// After this many attempts in a row that were accepted and then closed we assume a proxy without a backend.
constexpr std::size_t kTurnedAway = 10;
// After this many idle timeouts a peer is given up whose host is alive but whose process takes nothing; it
// may compute for long.
constexpr int kStalledFactor = 10;

}  // namespace

bool Liveness::look(TimePoint now) noexcept {
  const bool moved = moved_;
  if (moved) {
    restart(now);
    ping_after_ = Duration::zero();
  }
  return moved;
}

void Liveness::restart(TimePoint now) noexcept {
  moved_ = false;
  last_moved_ = now;
}

bool Liveness::due(TimePoint& last, TimePoint now, Duration every) noexcept {
  if (now - last < every) return false;
  last = now;
  return true;
}

void Liveness::joined(std::size_t stream, TimePoint now) {
  if (stream >= silent_since_.size()) silent_since_.resize(stream + 1);
  silent_since_[stream] = now;
}

bool Liveness::path_is_silent(std::size_t stream, TimePoint now, Duration unanswered, Duration round_trip) {
  // The kernel counts from the last answer, which on an idle stream was long ago; one packet that was lost
  // after that does not make the path silent.
  if (unanswered == Duration::zero()) joined(stream, now);
  // A stream that was there from the beginning has its kernel's word alone.
  if (stream >= silent_since_.size()) return unanswered >= std::max(kSilent, 4 * round_trip);
  const Duration since = now - silent_since_[stream] + kFirstRepeat;
  return std::min(unanswered, since) >= std::max(kSilent, 4 * round_trip);
}

bool Liveness::overdue(TimePoint now, bool waits) noexcept {
  waits |= std::exchange(asked_, false);
  if (!waits) last_moved_ = now;
  return waits && quiet_for(now) >= idle_timeout_ && !is_alone();
}

Liveness::Verdict Liveness::judge(TimePoint now, Duration silent, bool sends) const noexcept {
  if (silent >= idle_timeout_) return Verdict::kHostSilent;
  return sends && quiet_for(now) >= kStalledFactor * idle_timeout_ ? Verdict::kStalled : Verdict::kWait;
}

Duration Liveness::patience(const WhileAlone& what) const noexcept {
  if (!what.all_ended) return idle_timeout_;
  return std::min(idle_timeout_, what.can_ask ? kEndedGrace : kEndedGraceUnasked);
}

Liveness::Verdict Liveness::judge_alone(TimePoint now, const WhileAlone& what) const noexcept {
  if (!is_alone()) return Verdict::kWait;
  const Duration alone = now - *alone_since_;
  // A proxy in front of the peer may accept every attempt and close it, although the peer is gone.
  if (what.turned_away >= kTurnedAway && alone >= std::min(idle_timeout_, kEndedGrace))
    return Verdict::kVanished;
  if (alone < patience(what)) return Verdict::kWait;
  return what.all_ended ? Verdict::kVanished : Verdict::kNoneBack;
}

bool Liveness::gives_up_ended(TimePoint now, bool dialing) const noexcept {
  return quiet_for(now) >= (dialing ? kEndedGrace : kEndedGraceUnasked);
}

bool Liveness::ping_due(TimePoint now) noexcept {
  const Duration after = std::max(ping_after_, kFirstPing);
  if (now - std::max(last_moved_, last_ping_) < after) return false;
  last_ping_ = now;
  ping_after_ = std::min(2 * after, std::max<Duration>(idle_timeout_ / 4, kFirstPing));
  return true;
}

}  // namespace tombolo::transport::tcp
