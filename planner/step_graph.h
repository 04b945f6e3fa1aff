// One training step of a plan as a graph of activities for the fluid engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/cluster_view.h"
#include "planner/fluid.h"
#include "planner/plan.h"

namespace tombolo::planner {

/// Compute time of a stage's pieces on one rank, in seconds for one micro-batch with the device to itself.
struct StageCosts {
  double layer_forward = 0;  ///< one layer
  double head_forward = 0;   ///< output projection and loss; 0 but on the last stage
  double optimizer = 0;      ///< once per step; 0 where the memory's speed is unknown
  int layers = 0;
  static constexpr double kBackwardFactor = 2;  ///< two products for each of the forward pass

  double forward() const noexcept { return layers * layer_forward + head_forward; }
  double backward() const noexcept { return kBackwardFactor * forward(); }
};

StageCosts stage_costs(const Plan& plan, const ClusterView& view, int rank);

/// What a group of activities is, for the timeline and the sums.
struct Bar {
  enum class Kind { kForward, kBackward, kSend, kAllReduce, kOptimizer };
  Kind kind = Kind::kForward;
  int rank = 0;
  int micro_batch = -1;
  FluidEngine::Activity first = 0, last = 0;  ///< begins with the one, ends with the other
};

/// Bytes over one pair of NICs, by host and NIC index.
struct Flow {
  int from_host = 0, from_nic = 0, to_host = 0, to_nic = 0;
  double bytes = 0;
};

struct StepGraph {
  FluidEngine engine;
  std::vector<Bar> bars;
  std::vector<Flow> flows;
};

/// Builds the graph; running the engine simulates the step. Gradients are reduced in buckets of at least
/// `bucket_bytes`, cut at the borders of layers.
StepGraph build_step(const Plan& plan, const ClusterView& view, std::uint64_t bucket_bytes);

}  // namespace tombolo::planner
