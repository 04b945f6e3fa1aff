#include <functional>

#include "tests/simulation/plans/reduction.h"

namespace tombolo::simulation {
namespace {

/// Settings of a part become usual, each on its own.
template <typename P, typename... Parts>
void append_settings(Reductions<P>& to, Parts... parts) {
  (to.push_back(as_usual<P>(parts)), ...);
}

/// Those of what all kinds of plans have.
Reductions<Plan> network_reductions() {
  Reductions<Plan> all{left_out<Plan>(&Plan::faults)};
  append_settings(all, &Plan::nics, &Plan::tls, &Plan::checksums, &Plan::streams, &Plan::chunk, &Plan::replay,
                  &Plan::short_one_in, &Plan::fetch, &Plan::or_tcp, &Plan::lap, &Plan::yield_one_in,
                  &Plan::early_one_in, &Plan::delay, &Plan::bytes_per_second);
  return all;
}

template <typename P>
void append_network(Reductions<P>& to) {
  for (const Reduction<Plan>& one : network_reductions()) to.push_back(within<P>(&P::network, one));
}

/// Those of one connection of NCCL's. Messages of several groups that are sent at once need receives, and
/// sends, which are posted at once, so that a window may change only where they are sent in order.
Reductions<CommPlan> comm_reductions() {
  Reductions<CommPlan> all{{[](const CommPlan& comm) { return comm.messages.size(); },
                            [](CommPlan& comm, std::size_t begin, std::size_t end) {
                              for (std::size_t i = begin; i < end; ++i) comm.leave_out(begin);
                              return begin != end;
                            }}};
  append_settings(all, &CommPlan::send_order);
  const auto in_order = [](auto part) {
    const Reduction<CommPlan> one = as_usual<CommPlan>(part);
    return once<CommPlan>(
        [one](CommPlan& comm) { return comm.send_order.empty() && one.take(comm, 0, one.places(comm)); });
  };
  for (const auto& one :
       {in_order(&CommPlan::tags), in_order(&CommPlan::groups), in_order(&CommPlan::window)})
    all.push_back(one);
  append_settings(all, &CommPlan::registered, &CommPlan::other_handle_first, &CommPlan::listener_closes_early,
                  &CommPlan::ending, &CommPlan::tells_attributes, &CommPlan::receiver_aborts,
                  &CommPlan::abort_after);
  all.push_back(in_each<CommPlan>(&CommPlan::messages, halved<std::size_t>(std::identity{})));
  all.push_back(in_each<CommPlan>(&CommPlan::pauses, as_usual<Duration>(std::identity{})));
  return all;
}

Reductions<CollectiveStep> step_reductions() {
  Reductions<CollectiveStep> all{left_out<CollectiveStep>(&CollectiveStep::transfers)};
  append_settings(all, &CollectiveStep::started, &CollectiveStep::in_half, &CollectiveStep::in_place,
                  &CollectiveStep::op, &CollectiveStep::root);
  // No average of floats: their operation is as usual before their type is.
  all.push_back(as_usual<CollectiveStep>(&CollectiveStep::type));
  all.push_back(halved<CollectiveStep>(&CollectiveStep::count));
  all.push_back(in_each<CollectiveStep>(&CollectiveStep::transfers, halved<Transfer>(&Transfer::bytes)));
  return all;
}

}  // namespace

template <>
Reductions<Plan> all_reductions() {
  Reductions<Plan> all = network_reductions();
  all.insert(all.begin() + 1, left_out<Plan>(&Plan::messages));
  append_settings(all, &Plan::window, &Plan::wait_before_close);
  all.push_back(in_each<Plan>(&Plan::messages, halved<Message>(&Message::size)));
  all.push_back(in_each<Plan>(&Plan::messages, as_usual<Message>(&Message::pause)));
  return all;
}

template <>
Reductions<PluginPlan> all_reductions() {
  Reductions<PluginPlan> all{left_out<PluginPlan>(&PluginPlan::comms)};
  append_network(all);
  append_settings(all, &PluginPlan::devices_per_nic, &PluginPlan::shared_context,
                  &PluginPlan::finalized_early);
  for (const Reduction<CommPlan>& one : comm_reductions())
    all.push_back(in_each<PluginPlan>(&PluginPlan::comms, one));
  return all;
}

template <>
Reductions<CollectivePlan> all_reductions() {
  Reductions<CollectivePlan> all{left_out<CollectivePlan>(&CollectivePlan::steps)};
  all.push_back({[](const CollectivePlan& plan) { return std::size_t{plan.ranks()}; },
                 [](CollectivePlan& plan, std::size_t begin, std::size_t end) {
                   if (begin == end || plan.ranks() - (end - begin) < CollectivePlan::kFewestRanks)
                     return false;
                   for (std::size_t i = begin; i < end; ++i)
                     plan.leave_out_rank(static_cast<unsigned>(begin));
                   return true;
                 }});
  append_network(all);
  append_settings(all, &CollectivePlan::abort, &CollectivePlan::algorithm, &CollectivePlan::segment_bytes,
                  &CollectivePlan::small_bytes, &CollectivePlan::finalizes);
  all.push_back(once<CollectivePlan>([](CollectivePlan& plan) {
    for (CollectiveStep& step : plan.steps) step.in_half = false;
    return std::exchange(plan.halves, false);
  }));
  all.push_back(in_each<CollectivePlan>(&CollectivePlan::clusters, as_usual<unsigned>(std::identity{})));
  for (const Reduction<CollectiveStep>& one : step_reductions())
    all.push_back(in_each<CollectivePlan>(&CollectivePlan::steps, one));
  return all;
}

}  // namespace tombolo::simulation
