#include "tests/simulation/plans/plugin_plan.h"

#include <array>

#include "base/format.h"
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

}  // namespace

PluginPlan draw_plugin_plan(std::uint64_t seed) {
  PluginPlan plan;
  plan.network = draw_plan(seed);
  plan.network.messages.clear();
  Draw draw(~seed);
  plan.devices_per_nic = draw.once_in(3);
  plan.shared_context = draw.once_in(3);
  plan.finalized_early = draw.once_in(4);
  std::size_t left = kMostBytes;
  for (std::uint64_t comms = 1 + draw.below(4); comms != 0; --comms)
    plan.comms.push_back(draw_comm(draw, left));
  return plan;
}

std::string describe(const PluginPlan& plan) {
  std::string text = describe(plan.network);
  text += fmt::format("  {}, {}, ended {}\n", plan.devices_per_nic ? "a device per NIC" : "one device",
                      plan.shared_context ? "one context for all" : "a context per connection",
                      plan.finalized_early ? "once connected" : "last");
  static constexpr const char* kEndings[] = {"closes together", "closes when done", "aborts",
                                             "gives up connecting"};
  for (std::size_t i = 0; i < plan.comms.size(); ++i) {
    const CommPlan& comm = plan.comms[i];
    text += fmt::format("  comm {}: host {} sends, windows {} and {}{}{}{}, {}", i, comm.sender,
                        comm.window[0], comm.window[1], comm.registered ? ", registered" : "",
                        comm.other_handle_first ? ", after another handle" : "",
                        comm.listener_closes_early ? ", listener closes early" : "",
                        kEndings[static_cast<int>(comm.ending)]);
    if (comm.ending == CommPlan::Ending::kAbort)
      text +=
          fmt::format(" at the {} after {}", comm.receiver_aborts ? "receiver" : "sender", comm.abort_after);
    text += "; bytes:";
    for (std::size_t at = 0; at < comm.messages.size(); ++at) {
      text += fmt::format(" {}", comm.messages[at]);
      if (comm.pauses[at] > Duration::zero())
        text += fmt::format(" (after {} us)", comm.pauses[at] / microseconds(1));
    }
    text += "\n";
  }
  return text;
}

}  // namespace tombolo::simulation
