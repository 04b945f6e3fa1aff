// One training step of a plan as a graph of activities for the fluid engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/cost/engine_traffic.h"
#include "planner/plan/cluster_view.h"
#include "planner/plan/plan.h"
#include "planner/simulate/fluid.h"
#include "planner/simulate/step_network.h"

namespace tombolo::planner {

/// What a group of activities represents in the timeline and in the sums.
struct Bar {
  enum class Kind { kForward, kBackward, kBackwardWeights, kSend, kReduce, kExchange, kRing, kOptimizer };
  Kind kind = Kind::kForward;
  int rank = 0;  ///< where tensor-parallel ranks share a slot, the first of them, because they work in step
  int micro_batch = -1;
  FluidEngine::Activity first = 0, last = 0;  ///< the bar begins with `first` and ends with `last`
  /// Of a pass, in how many layers ranks wait for those that divide their experts, and for which share of it;
  /// where the waits are activities of their own, they have bars of their own.
  int exchanges = 0;
  double exchanged = 0;
};

struct StepGraph {
  FluidEngine engine;
  std::vector<Bar> bars;
  std::vector<Flow> flows;
  std::vector<ExpectedReduction> reductions;  ///< where all replicas are in the graph
  EngineTraffic traffic;                      ///< stays when a graph is built in the memory of this one
  /// How many replicas each stands for, 0 where another stands for it; empty where all are in the graph.
  std::vector<int> copies;
};

/// How often replicas that cannot but do all at the same times (alike.h) are in a graph.
enum class AlikeReplicas {
  kEach,
  kOnce,  ///< one of them, whose transfers count for all; there are no flows then
};

/// Builds the graph; running the engine simulates the step. Gradients are reduced in buckets of at least
/// `bucket_bytes`, cut at the borders of layers.
///
/// Where replicas differ, each range of layers that has the same owners in all of them is reduced among
/// these. That their tensor-parallel shares are cut differently changes which rank sends which part, but not
/// how much is sent.
///
/// The graph is built in the memory of another, of which only what is known of the engine stays.
StepGraph build_step(const Plan& plan, const ClusterView& view, std::uint64_t bucket_bytes,
                     StepGraph memory = {}, AlikeReplicas alike = AlikeReplicas::kEach);

/// A lower bound of the seconds of that step, from the graph of one replica alone: its longest chain of
/// passes and transfers, as if nothing else used their links, with the norm and the optimizer. What replicas
/// exchange is left out, and so are the waits for others. It takes as much less time than building the whole
/// graph as there are replicas.
double least_step_seconds(const Plan& plan, const ClusterView& view);

}  // namespace tombolo::planner
