// The links of a cluster as resources of the fluid engine, and the resources that each transfer of a step
// uses.
#pragma once

#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "planner/plan/cluster_view.h"
#include "planner/plan/plan.h"
#include "planner/simulate/fluid.h"

namespace tombolo::planner {

/// Bytes over one pair of NICs, by index of host and NIC. Between two hosts routing takes one such pair.
struct Flow {
  int from_host = 0, from_nic = 0, to_host = 0, to_nic = 0;
  double bytes = 0;
};

/// One end of a transfer: the ranks of a pipeline slot.
struct TransferEnd {
  int rank = 0;     ///< the first of the ranks
  int host = 0;     ///< its index
  int sharers = 1;  ///< how many ranks the slot has
};

/// `plan`, `view` and `engine` must outlive it.
class StepNetwork {
 public:
  StepNetwork(const Plan& plan, const ClusterView& view, FluidEngine& engine)
      : plan_(plan), view_(view), engine_(engine) {}

  /// Adds a transfer without its latency; returns the activity of its bytes.
  FluidEngine::Activity add(const TransferEnd& from, const TransferEnd& to, double bytes);

  double latency(int from_host, int to_host) const { return view_.path(from_host, to_host).latency_seconds; }
  /// The longest latency of the pairs of hosts between which something is sent.
  double longest_latency() const;
  /// The bytes between hosts, by pair.
  std::vector<Flow> flows() const;

 private:
  using Activity = FluidEngine::Activity;
  using Resource = FluidEngine::Resource;
  /// The pair of NICs over which one host sends to another, and the resources that it uses.
  struct Between {
    Flow flow;
    Resource pair = FluidEngine::kNone, out = FluidEngine::kNone, in = FluidEngine::kNone;
  };

  Activity add_inside(const TransferEnd& from, const TransferEnd& to, double bytes);
  Resource nic(int host, int index, bool out);
  Resource shared_link(int index);
  Resource port(const TransferEnd& end, bool out);
  double burst(int host, int index) const;

  const Plan& plan_;
  const ClusterView& view_;
  FluidEngine& engine_;
  std::map<std::tuple<int, int, bool>, Resource> nics_;
  std::unordered_map<HostPair, Between, HostPair::Hash> between_;
  std::map<int, Resource> buses_;  // by host
  std::map<int, Resource> shared_links_;
  std::map<std::pair<int, bool>, Resource> ports_;
  std::vector<Resource> way_;  // the resources of the transfer that is being added
};

}  // namespace tombolo::planner
