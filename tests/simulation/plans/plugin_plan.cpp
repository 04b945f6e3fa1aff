#include "tests/simulation/plans/plugin_plan.h"

#include <algorithm>
#include <array>

#include "tests/simulation/plans/draw.h"

namespace tombolo::simulation {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Beyond NCCL_NET_MAX_REQUESTS, so that posts are refused.
constexpr std::uint64_t kMostWindow = 40;
// What all connections of a plan carry together; more would only make schedules fewer.
constexpr std::size_t kMostBytes = 600'000;

CommPlan draw_comm(Draw& draw, std::size_t& left) {
  using Ending = CommPlan::Ending;
  CommPlan comm;
  comm.sender = static_cast<unsigned>(draw.below(2));
  for (std::uint64_t messages = draw.once_in(8) ? 60 : 1 + draw.below(12); messages != 0; --messages) {
    std::size_t size = draw_size(draw);
    if (size > left) size %= 1000;
    left -= std::min(size, left);
    comm.messages.push_back(size);
    comm.pauses.push_back(draw.once_in(8) ? draw.duration(milliseconds(100)) : Duration::zero());
  }
  for (unsigned& window : comm.window)
    window = 1 + static_cast<unsigned>(draw.below(draw.once_in(4) ? kMostWindow : 8));
  comm.other_handle_first = draw.once_in(6);
  comm.listener_closes_early = draw.once_in(2);
  constexpr std::array kEndings{Ending::kTogether, Ending::kTogether, Ending::kTogether, Ending::kWhenDone,
                                Ending::kWhenDone, Ending::kWhenDone, Ending::kAbort,    Ending::kGiveUp};
  comm.ending = draw.one_of(kEndings);
  comm.registered = comm.ending == Ending::kAbort || draw.once_in(2);
  comm.receiver_aborts = draw.once_in(2);
  comm.abort_after = draw.below(comm.messages.size());
  return comm;
}

/// An order of sending that keeps that of each tag: NCCL promises no other. Unless `all_at_once`, no message
/// comes before those of an earlier group: its receive may not be posted before they have come.
std::vector<std::size_t> draw_send_order(Draw& draw, const CommPlan& comm, bool all_at_once) {
  std::vector<std::size_t> order;
  const auto send_some = [&](std::size_t begin, std::size_t end) {
    std::vector<std::size_t> left;
    for (std::size_t i = begin; i < end; ++i) left.push_back(i);
    while (!left.empty()) {
      const int tag = comm.tag_of(left[draw.below(left.size())]);
      const auto next = std::ranges::find_if(left, [&](std::size_t i) { return comm.tag_of(i) == tag; });
      order.push_back(*next);
      left.erase(next);
    }
  };
  if (all_at_once) {
    send_some(0, comm.messages.size());
  } else {
    std::size_t begin = 0;
    for (const unsigned count : comm.groups) {
      send_some(begin, begin + count);
      begin += count;
    }
  }
  return order;
}

/// Tags, and receives in groups.
void draw_groups(Draw& draw, CommPlan& comm) {
  const std::uint64_t tags = 1 + draw.below(draw.once_in(3) ? 8 : 4);
  for (std::size_t i = 0; i < comm.messages.size(); ++i)
    comm.tags.push_back(draw.once_in(20) ? 0x7fffffff : static_cast<int>(draw.below(tags)));
  const bool large = draw.once_in(2);
  for (std::size_t left = comm.messages.size(); left != 0; left -= comm.groups.back())
    comm.groups.push_back(static_cast<unsigned>(1 + draw.below(std::min<std::size_t>(left, large ? 8 : 3))));
  const bool all_at_once = draw.once_in(2);
  if (all_at_once) comm.window[0] = static_cast<unsigned>(comm.messages.size());
  comm.send_order = draw_send_order(draw, comm, all_at_once);
}

}  // namespace

PluginPlan draw_plugin_plan(std::uint64_t seed, Over over) {
  PluginPlan plan;
  plan.network = draw_network(seed, over);
  Draw draw(~seed);
  plan.devices_per_nic = draw.once_in(3);
  plan.shared_context = draw.once_in(3);
  plan.finalized_early = draw.once_in(4);
  std::size_t left = kMostBytes;
  for (std::uint64_t comms = 1 + draw.below(4); comms != 0; --comms)
    plan.comms.push_back(draw_comm(draw, left));
  Draw further(seed ^ 0x5bd1e995U);
  for (CommPlan& comm : plan.comms) {
    comm.tells_attributes = further.once_in(3);
    if (further.once_in(12)) comm.ending = CommPlan::Ending::kInFlight;
    if (!further.once_in(3)) draw_groups(further, comm);
  }
  return plan;
}

void CommPlan::leave_out(std::size_t message) {
  const auto erase = [message](auto& list) {
    if (!list.empty()) list.erase(list.begin() + static_cast<std::ptrdiff_t>(message));
  };
  erase(messages);
  erase(tags);
  erase(pauses);
  std::erase(send_order, message);
  for (std::size_t& one : send_order) one -= one > message;
  std::size_t end = 0;
  const auto its_group =
      std::ranges::find_if(groups, [&](unsigned count) { return (end += count) > message; });
  if (its_group != groups.end() && --*its_group == 0) groups.erase(its_group);
}

}  // namespace tombolo::simulation
