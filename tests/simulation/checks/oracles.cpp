#include "tests/simulation/checks/oracles.h"

#include <algorithm>
#include <cstring>

#include "base/format.h"
#include "base/units.h"
#include "tests/simulation/checks/pattern.h"
#include "tests/simulation/plans/plan.h"

namespace tombolo::simulation {
namespace {

using std::chrono::seconds;

// How long a plan's own faults, and pauses between turns, may hold up what has a deadline.
constexpr Duration kSlack = kMostTaken + seconds(1);
// A connection that is closed waits for its peer this long at most.
constexpr Duration kLongestClose = kIdleTimeout + kSlack;
// An end whose peer is gone for good notices within this.
constexpr Duration kLongestNotice = 3 * kIdleTimeout + kSlack;
constexpr Duration kLongestConnect = kConnectDeadline + kSlack;

std::string state_of(unsigned host, const Account& end) {
  return fmt::format("host {}: {} of {} sends and {} of {} receives done{}{}{}{}", host, end.done_sends,
                     end.to_send, end.done_receives, end.to_receive, end.made ? "" : ", not connected",
                     end.killed ? ", killed" : "", end.closed_at ? ", closed" : "",
                     end.error.empty() ? "" : ", failed: " + end.error);
}

/// An end that has closed sends nothing again. Where a stream is cut after that, before the peer has read
/// what came on it, the peer misses messages, and fails. Where all were cut before, the peer may miss the
/// acknowledgements of what this end received.
bool cut_while_closing(const Facts& facts) {
  return !facts.shares_memory && facts.last_cut != TimePoint{} &&
         std::ranges::any_of(facts.ends, [&](const Account& end) {
           if (!end.made || !end.closing_since) return false;
           return facts.last_cut >= *end.closing_since || (end.closed_alone && end.error.empty());
         });
}

/// Some errors of system calls may make the set-up fail, which is then said.
bool set_up_failed_by_errno(const Facts& facts) {
  const Account* ends = facts.ends;
  return facts.may_be_refused && (!ends[0].made || !ends[1].made) &&
         (!ends[0].error.empty() || !ends[1].error.empty());
}

/// Where a stream is cut while the connection is made, the connecting end opens it again, which takes the
/// other end: it may have closed already.
bool closed_before_the_other_was_connected(const Facts& facts) {
  const Account &connecting = facts.ends[0], &accepting = facts.ends[1];
  return facts.last_cut != TimePoint{} && accepting.made && accepting.error.empty() && !connecting.made &&
         !connecting.error.empty();
}

/// An end that has everything may learn that its peer has closed before it looks at its last requests.
bool lost_nothing(const Account& end, const Account& peer) {
  if (!end.all_done()) return false;
  return end.error.empty() ||
         (peer.all_done() && peer.error.empty() && peer.closing_since && end.failed_at >= peer.closing_since);
}

std::string check_survived(const Facts& facts) {
  if (facts.terminal || set_up_failed_by_errno(facts) || cut_while_closing(facts) ||
      closed_before_the_other_was_connected(facts))
    return {};
  for (unsigned host = 0; host < 2; ++host)
    if (!lost_nothing(facts.ends[host], facts.ends[1 - host]))
      return "what can be survived was not: " + describe_ends(facts);
  return {};
}

std::string check_delivered(const Facts& facts) {
  for (unsigned host = 0; host < 2; ++host) {
    const Account &from = facts.ends[host], &to = facts.ends[1 - host];
    if (from.killed || to.killed) continue;
    // An acceptor may lack what it needs to make the connection; then the connecting end alone has an error.
    const bool never_made = !to.made && facts.may_be_refused && !from.error.empty();
    if (from.made && from.done_sends > to.done_receives && to.error.empty() && !never_made)
      return "sends were reported as done that nobody received, and no error says so: " +
             describe_ends(facts);
    if (from.made && to.made && from.error.empty() && !to.error.empty() && !from.all_done())
      return "one end stopped without an error: " + describe_ends(facts);
  }
  return {};
}

std::string check_time(unsigned host, const char* what, Duration took, Duration most) {
  if (took <= most) return {};
  return fmt::format("host {}: {} took {}, longer than {}", host, what, format_seconds(to_seconds(took)),
                     format_seconds(to_seconds(most)));
}

std::string check_deadlines(const Facts& facts) {
  for (unsigned host = 0; host < 2; ++host) {
    const Account& end = facts.ends[host];
    if (end.killed) continue;
    std::string wrong =
        check_time(host, "connecting", end.connected_at - end.connecting_since, kLongestConnect);
    if (wrong.empty() && end.closing_since && end.closed_at)
      wrong = check_time(host, "closing", *end.closed_at - *end.closing_since, kLongestClose);
    if (wrong.empty() && end.made && facts.terminal && end.failed_at)
      wrong = check_time(host, "noticing that the peer is gone", *end.failed_at - *facts.terminal,
                         kLongestNotice);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace

std::string describe_ends(const Facts& facts) {
  return state_of(0, facts.ends[0]) + "; " + state_of(1, facts.ends[1]);
}

std::string check_send(unsigned host, std::size_t index, std::size_t bytes,
                       std::span<const std::byte> buffer) {
  if (bytes == buffer.size()) return {};
  return fmt::format("host {}: send {} of {} bytes reports {}", host, index, buffer.size(), bytes);
}

std::string check_receive(unsigned host, std::size_t index, std::size_t bytes,
                          std::span<const std::byte> buffer, std::span<const std::byte> expected) {
  if (bytes != expected.size())
    return fmt::format("host {}: receive {} got {} bytes, expected {}", host, index, bytes, expected.size());
  if (!expected.empty() && std::memcmp(expected.data(), buffer.data(), bytes) != 0)
    return fmt::format("host {}: receive {} got other bytes than were sent", host, index);
  if (!holds_only(kUntouched, buffer.subspan(bytes)))
    return fmt::format("host {}: receive {} wrote beyond its message", host, index);
  return {};
}

std::string check_failed(unsigned host, std::size_t index, const Error* error, const std::string& peer) {
  if (error == nullptr)
    return fmt::format("host {}: request {} failed, and the connection has no error", host, index);
  const std::string text = error->what();
  if (text.find("host " + peer) != std::string::npos) return {};
  return fmt::format("host {}: the connection's error does not name the peer: {}", host, text);
}

std::string check_over(unsigned host, std::span<const std::byte> buffer) {
  if (holds_only(kOver, buffer)) return {};
  return fmt::format("host {}: a buffer was written after its request was over", host);
}

std::string check_end(const Facts& facts) {
  for (const auto check : {check_survived, check_delivered, check_deadlines})
    if (std::string wrong = check(facts); !wrong.empty()) return wrong;
  if (facts.descriptors_left != 0)
    return fmt::format("{} descriptors are left:{}", facts.descriptors_left, facts.which_descriptors);
  return {};
}

}  // namespace tombolo::simulation
