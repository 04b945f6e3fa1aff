// Executes a plan's schedule event by event: computing shares processors, transfers share NICs.
//
// This folder owns the prediction of a step (step_graph.h builds the graph that fluid.h runs) and its
// comparison with a measured run (measured_run.h, calibrate.h).
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/json.h"
#include "planner/plan/plan.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

/// One bar of the timeline.
struct Span {
  int rank = 0;      ///< of ranks that share layers (tensor parallelism), the first
  std::string name;  ///< "forward", "backward", "weight gradients", "all-reduce", "all-to-all", "ring",
                     ///< "send", "optimizer"
  int micro_batch = -1;
  double begin_seconds = 0, end_seconds = 0;
};

struct LinkBytes {
  std::string from_host, from_nic, to_host, to_nic;
  double bytes = 0;  ///< per step
};

/// The bytes over one of the cluster file's shared links, of all transfers together.
struct SharedBytes {
  std::string name;
  double bytes = 0;  ///< per step
  double bytes_per_second = 0;
};

struct StepGraph;

struct SimulationOptions {
  /// The least size of a bucket of gradients, which is cut at the borders of layers; the trainer's default.
  std::uint64_t bucket_bytes = 256 * 1024;
  bool spans = true;  ///< false: only the sums are computed, which is faster
  /// False, where `spans` is: not even bytes per link, only the step's seconds and its bubble. Replicas that
  /// are alike are then simulated once, which is many times as fast; the seconds are the same to rounding.
  bool links = true;
  /// A step that takes longer than this is not simulated to its end. Of its result only one thing is valid:
  /// step_seconds is beyond this.
  double limit_seconds = std::numeric_limits<double>::infinity();
  /// A graph that nobody needs any more, in whose memory the next is built, and which holds anything
  /// afterwards: in a search graphs are large and many. Null: each gets memory of its own.
  StepGraph* memory = nullptr;
};

struct Simulation {
  double step_seconds = 0;
  double bubble_fraction = 0;
  std::vector<Span> spans;
  std::vector<LinkBytes> links;
  std::vector<SharedBytes> shared;  ///< those that carry anything, in the cluster file's order
  /// In the order in which they begin; none where `links` is false.
  std::vector<ExpectedReduction> reductions;
};

/// Throws kInvalidUsage where the cluster file lacks what is needed (a host or device of the plan, a device's
/// speed, a link between two ranks that must communicate), naming it.
Simulation simulate(const Plan& plan, const topology::ClusterFile& cluster,
                    const SimulationOptions& options = {});

class ClusterView;
/// The same, for many plans on one cluster: `view` must be of the plan's routing and hosts.
Simulation simulate(const Plan& plan, const ClusterView& view, const SimulationOptions& options);
/// The hosts that a plan uses, each once, in order of first use.
std::vector<std::string> hosts_of(const Plan& plan);
/// Seconds in which each rank computes, by rank.
std::vector<double> busy_seconds(const Simulation& simulation, const Plan& plan);

/// The simulation as Chrome trace events (chrome://tracing, Perfetto).
Json to_chrome_trace(const Simulation& simulation, const Plan& plan);

}  // namespace tombolo::planner
