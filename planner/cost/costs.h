// What computing costs: seconds of a micro-batch on the ranks of one place of a pipeline.
#pragma once

#include <vector>

#include "planner/plan/cluster_view.h"
#include "planner/plan/plan.h"

namespace tombolo::planner {

/// Seconds of one micro-batch, with the devices to themselves; what tensor-parallel ranks send each other
/// included.
struct PassSeconds {
  double forward = 0;
  double backward_input = 0;  ///< with what is computed again, where activations are not kept
  double backward_weights = 0;

  double backward() const noexcept { return backward_input + backward_weights; }
  double both() const noexcept { return forward + backward(); }
};

/// Of the ranks that share a place: they work alike, as fast as the slowest.
struct PlaceCosts {
  PassSeconds layer;                ///< one layer
  std::vector<PassSeconds> layers;  ///< by layer of the model, where they differ; else empty
  PassSeconds embedding;            ///< zero but where the first layers are and a profile has it
  PassSeconds head;                 ///< output projection and loss; zero but where the last layers are
  double optimizer = 0;  ///< once per step; 0 where neither the memory's speed nor a profile is known

  const PassSeconds& of_layer(int index) const noexcept;
  /// A stage's layers, with the embedding where it is the `first`, and the head where it is the `last`.
  PassSeconds stage(const Stage& stage, bool first, bool last) const noexcept;
};

/// By the job's profile, where it has one for the slowest of the ranks' devices: what a profile does not tell
/// apart, gradients of inputs and of weights, takes half of its backward pass each. Else by FLOPs over
/// attained FLOP/s: a product's backward pass is two products of the same size, one for each
/// gradient; attention's core (4 S^2 H) has no weights, so both of its products are for the input's. Per
/// layer, tensor-parallel ranks add up activations twice in each direction (or scatter and gather them, which
/// sends as much), by a ring over the slowest of their links. Throws kInvalidUsage where a device's speed is
/// unknown.
PlaceCosts place_costs(const Plan& plan, const ClusterView& view, const std::vector<int>& ranks);

}  // namespace tombolo::planner
