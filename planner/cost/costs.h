// The cost of computing: seconds of a micro-batch on the ranks of one pipeline slot.
//
// This folder owns the costs that the simulator and the searches share: computing here, memory (memory.h),
// and what an all-reduce sends (all_reduce.h).
#pragma once

#include <vector>

#include "planner/cost/context_rounds.h"
#include "planner/cost/expert_exchange.h"
#include "planner/cost/layer_seconds.h"
#include "planner/plan/cluster_view.h"
#include "planner/plan/plan.h"

namespace tombolo::planner {

/// Times of the ranks that share a slot: they work in step, as fast as the slowest.
struct SlotCosts {
  PassSeconds layer;                ///< one layer
  std::vector<PassSeconds> layers;  ///< by layer of the model, where they differ; else empty
  PassSeconds embedding;            ///< zero except where the first layers are and a profile has it
  PassSeconds head;                 ///< output projection and loss; zero except where the last layers are
  double optimizer = 0;  ///< once per step; 0 where neither the memory's speed nor a profile is known
  /// One all-to-all with the replicas that divide its experts. Where it crosses between hosts it is not in
  /// the times of the layers, since it depends on what else is sent then.
  SlotExchange expert_exchange;
  /// Its seconds, where they are in the times of the layers; else 0.
  double expert_exchange_seconds = 0;

  /// What the replicas that divide its rows' tokens exchange where they are on several hosts, beside all else
  /// that is sent then; empty where they are on one, whose exchange is in the times of the layers.
  ContextRounds context;

  /// ComputeProfile::crowded_seconds, of the slowest of the devices.
  double crowded = 0;

  const PassSeconds& of_layer(int index) const noexcept;
  /// Times of a stage's layers, with the embedding where it is the `first`, and the head where it is the
  /// `last`.
  PassSeconds stage(const Stage& stage, bool first, bool last) const noexcept;
};

/// The record of a device in `Job::compute`; one that leaves layers their FLOPs alone where it has none.
const ComputeProfile& kernels_on(const Job& job, const topology::Device& device);

/// The costs of a slot with these ranks.
///  * With a profile: the times of the slowest of the ranks' devices. A profile does not tell the gradients
///    of inputs from those of weights, so each takes half of the backward pass.
///  * Without: layer_seconds() of the slowest, by the record of its device in `Job::compute`, else by FLOPs
///    over attained FLOP/s. A product's backward pass is two products of the same size, one for each
///    gradient; attention's core (4 S^2 times its width) has no weights, so both of its products are for the
///    gradient of its input. In each layer, tensor-parallel ranks add up activations twice in each direction
///    (or scatter and gather them, which sends as much), by a ring over the slowest of their links. Replicas
///    that divide rows' tokens are as fast as the slowest, and exchange what attention needs over the slowest
///    link of their ring, or on several hosts as `context` says; in a part of a plan that lacks them no
///    exchange is counted, so that its costs are a bound. The same holds for replicas that divide experts.
/// Throws kInvalidUsage where a device's speed is unknown.
SlotCosts slot_costs(const Plan& plan, const ClusterView& view, const std::vector<int>& ranks);

}  // namespace tombolo::planner
