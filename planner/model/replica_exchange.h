// What the replicas of a model send each other in a step, and when: all-reduces of gradients, or with
// sharding their halves.
#pragma once

#include "planner/model/framework.h"

namespace tombolo::planner {

/// When replicas reduce their gradients.
enum class GradientReduction {
  kEachStep,  ///< once they are summed over all micro-batches, of which each replica then keeps them whole
  kEachMicroBatch,  ///< after each backward pass, so that each replica keeps its share alone
};

/// When replicas gather the parameters of which each has updated its share.
enum class ParameterGather {
  kNever,        ///< each updates all of them
  kEachStep,     ///< after the update, or beside the first forward pass after it
  kEachForward,  ///< layer by layer in every forward pass; they stay until the backward pass has used them
  kEachPass,     ///< layer by layer in every forward and every backward pass, which then drops them
};

struct ReplicaExchange {
  GradientReduction reduction = GradientReduction::kEachStep;
  ParameterGather gather = ParameterGather::kNever;
};

/// What sharding makes of it in a framework's pipeline of so many stages:
///  * ZeRO-1 scatters and gathers once a step.
///  * ZeRO-2 scatters after each micro-batch. Software that keeps its parameters as ZeRO-3 does
///    (FrameworkTraits::fully_shards) gathers them in each forward pass besides; with several stages torch's
///    pipelines put off both: parameters stay from the first micro-batch to the last, and gradients are
///    summed whole, which is then ZeRO-1's exchange.
///  * ZeRO-3 gathers in each pass, and scatters after each micro-batch.
/// A single replica exchanges nothing, whatever this says.
ReplicaExchange replica_exchange(Framework framework, Sharding sharding, int stages) noexcept;

}  // namespace tombolo::planner
