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
#include "planner/simulate/alike.h"
#include "planner/simulate/fluid.h"

namespace tombolo::planner {

/// Bytes over one pair of NICs, by index of host and NIC.
struct Flow {
  int from_host = 0, from_nic = 0, to_host = 0, to_nic = 0;
  double bytes = 0;
};

/// One end of a transfer: the ranks of a pipeline slot.
struct TransferEnd {
  int rank = 0;     ///< the first of the ranks
  int host = 0;     ///< its index
  int sharers = 1;  ///< how many ranks the slot has
  int senders = 0;  ///< whose NICs carry it: those of one slot (its `rank`), or of StepNetwork::senders()
};

/// A transfer begins with the one activity and ends with the other; often they are the same.
struct TransferActivities {
  FluidEngine::Activity first = FluidEngine::kNone, last = FluidEngine::kNone;
};

/// Where a framework sends through the NICs next to its devices (NicUse::kNearest), the NICs of a host fall
/// into *cells*, each used by the same slots. A transfer goes over the cells of its two ends at once, in
/// *lanes*, as NCCL's channels do. Else all go over the first pair of NICs.
/// `plan`, `view` and `engine` must outlive it.
class StepNetwork {
 public:
  StepNetwork(const Plan& plan, const ClusterView& view, FluidEngine& engine);

  /// Two ends between which much is sent; remembers what the first transfer has found. Must not outlive the
  /// network.
  class Route;
  /// Adds a transfer without its latency; returns the activities of its bytes.
  TransferActivities add(Route& route, double bytes);
  TransferActivities add(const TransferEnd& from, const TransferEnd& to, double bytes);
  /// Adds a transfer for all that are alike; the flows of bytes do not count it.
  TransferActivities add(const AlikeTransfer& transfer, double bytes);
  /// Adds the parts of a transfer between two ends to what may be alike.
  void add_parts(const TransferEnd& from, const TransferEnd& to, AlikeTransfers& alike);
  /// A number for slots of one host, by their first ranks in ascending order, that send through all of their
  /// NICs together.
  int senders(const std::vector<int>& ranks);

  double latency(int from_host, int to_host) const { return view_.path(from_host, to_host).latency_seconds; }
  /// The longest latencies of the transfers so far, but for those inside a host between GPUs.
  const Latencies& longest_latencies() const noexcept { return longest_; }
  /// The bytes between hosts, by pair of NICs.
  std::vector<Flow> flows() const;

 private:
  using Activity = FluidEngine::Activity;
  using Resource = FluidEngine::Resource;
  using Nics = std::vector<int>;
  /// NICs of one host that are used together, to those of another.
  struct Lane {
    Nics from, to;
    double share = 1;  ///< of a transfer's bytes
    double bytes_per_second = 0;
    double bytes = 0;  ///< sent so far
    std::vector<Resource> resources;
  };
  /// The lanes between two ends.
  struct Between {
    int from_host = 0, to_host = 0;
    std::vector<Lane> lanes;
    Latencies latencies;
  };
  /// The link between two slots of a host.
  struct Inside {
    double bytes_per_second = 0;  ///< 0: it takes no time
    Resource out = FluidEngine::kNone, in = FluidEngine::kNone;
    Latencies latencies;
  };
  /// Host and senders of both ends.
  struct Ends {
    int from_host = 0, from_senders = 0, to_host = 0, to_senders = 0;
    friend bool operator==(const Ends&, const Ends&) = default;
    struct Hash {
      std::size_t operator()(const Ends& ends) const noexcept;
    };
  };
  /// Which NICs of a host each slot uses, and the cells that follow.
  struct Cells {
    std::vector<Nics> cells;
    std::map<int, std::vector<std::size_t>> of_slot;  ///< indices of cells, by the slot's first rank
  };

  void find(Route& route);
  Latencies latencies(int from_host, int to_host) const;
  Inside inside(const TransferEnd& from, const TransferEnd& to);
  Between& between(const TransferEnd& from, const TransferEnd& to, const Path& path);
  std::vector<Nics> cells_of(int host, int senders, const Nics& nics);
  const Cells& cells(int host, const Nics& nics);
  Lane lane(const Path& path, int from_host, int to_host, Nics from, Nics to);
  Resource nics(int host, const Nics& nics, bool out);
  double most(int host, const Nics& nics, bool out) const;
  Resource shared_link(int index);
  Resource port(const TransferEnd& end, bool out);
  double burst(int host, int index) const;

  const Plan& plan_;
  const ClusterView& view_;
  FluidEngine& engine_;
  NicUse use_;
  std::vector<std::vector<int>> slots_;          // by host: the first ranks of its slots
  std::vector<std::vector<int>> ranks_of_slot_;  // by first rank
  std::vector<std::vector<int>> groups_;         // by number of senders, beyond the ranks
  std::map<std::vector<int>, int> group_numbers_;
  std::map<std::pair<int, Nics>, Cells> cells_;
  std::map<std::tuple<int, Nics, bool>, Resource> nics_;
  std::map<std::tuple<int, Nics, int, Nics>, Resource> pairs_;
  std::unordered_map<Ends, Between, Ends::Hash> between_;
  std::map<int, Resource> buses_;  // by host
  std::map<int, Resource> shared_links_;
  std::map<std::pair<int, bool>, Resource> ports_;
  Latencies longest_;
};

class StepNetwork::Route {
 public:
  Route(const TransferEnd& from, const TransferEnd& to) : from_(from), to_(to) {}

 private:
  friend StepNetwork;
  TransferEnd from_, to_;
  bool known_ = false;
  Between* between_ = nullptr;  ///< null: inside a host
  Inside inside_;
};

}  // namespace tombolo::planner
