#include "tests/simulation/runs/plugin_checks.h"

#include <algorithm>

#include "base/format.h"
#include "base/units.h"
#include "tests/simulation/checks/pattern.h"

namespace tombolo::simulation {
namespace {

// An end whose peer is gone for good notices within this.
constexpr Duration kLongestPluginNotice = 3 * kIdleTimeout + kMostTaken + std::chrono::seconds(1);

/// Over shared memory an end looks whether its peer lives in every 1024th call in which nothing moves, and
/// its owner here may call once in 20 ms.
Duration longest_notice(const PluginPlan& plan) {
  return kLongestPluginNotice +
         (plan.network.over == Over::kShm ? 1024 * std::chrono::milliseconds(20) : Duration::zero());
}

/// An end that has closed sends nothing again. Where a stream breaks before the peer's kernel has all, and
/// the end has not learnt it when it closes, the other end misses messages or acknowledgements, and fails.
bool may_lose_at_close(const PluginEnd& sender, const PluginEnd& receiver, const PluginPlan& plan,
                       const PluginFacts& facts) {
  if (sender.plan->ending == CommPlan::Ending::kTogether) return false;
  const auto cut_after = [&](const PluginEnd& end) {
    return end.closing_since && facts.last_cut >= *end.closing_since;
  };
  return cut_after(sender) || cut_after(receiver) ||
         std::ranges::any_of(plan.network.faults, &Fault::breaks_streams);
}

/// Some errors of system calls may make the set-up fail, which is then said; that of a further tag comes
/// later.
bool errno_at_set_up(const PluginEnd& sender, const PluginEnd& receiver, const PluginPlan& plan) {
  const bool any = std::ranges::any_of(plan.network.faults, &Fault::may_refuse);
  const bool one_tag = sender.plan->tags.empty();
  return any && !(one_tag && sender.made && receiver.made) &&
         !(sender.failed.empty() && receiver.failed.empty());
}

}  // namespace

std::string check_buffers(const PluginEnd& end) {
  for (const auto& buffer : end.over)
    if (!holds_only(kOver, buffer))
      return fmt::format("{}: memory was written after its request was over", end.name());
  return {};
}

std::string check_comm(const PluginEnd& sender, const PluginEnd& receiver, const PluginPlan& plan,
                       const PluginFacts& facts) {
  const std::string both = sender.doing() + "; " + receiver.doing();
  const auto dead = [&](const PluginEnd& end) { return facts.killed[end.host]; };
  const bool given_up = (sender.gives_up() && !sender.made) || sender.aborted || receiver.aborted ||
                        sender.stopped_in_flight || receiver.stopped_in_flight;
  if (!facts.terminal && !given_up && !may_lose_at_close(sender, receiver, plan, facts) &&
      !errno_at_set_up(sender, receiver, plan) &&
      !(sender.complete() && receiver.complete() && sender.failed.empty() && receiver.failed.empty()))
    return "what can be survived was not: " + both;
  if (sender.done > receiver.done && receiver.made && receiver.failed.empty() && !receiver.aborted &&
      !receiver.stopped_in_flight && !dead(receiver))
    return "sends were reported as done that nobody received, and the receiver got no error: " + both;
  for (const PluginEnd* end : {&sender, &receiver}) {
    if (dead(*end) || end->stopped_in_flight) continue;
    if (end->made && !end->complete() && end->failed.empty() && !sender.gave_up_in_shared_context(plan))
      return "one end stopped without an error: " + both;
    if (facts.terminal && end->made && !end->failed.empty() &&
        end->failed_at - *facts.terminal > longest_notice(plan))
      return fmt::format("a peer that was gone was noticed after {}: {}",
                         format_seconds(to_seconds(end->failed_at - *facts.terminal)), both);
    if (end->aborted && end->failed.empty())
      return "an end went on after its memory was deregistered: " + both;
  }
  return {};
}

}  // namespace tombolo::simulation
