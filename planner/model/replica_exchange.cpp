#include "planner/model/replica_exchange.h"

namespace tombolo::planner {

ReplicaExchange replica_exchange(Framework framework, Sharding sharding, int stages) noexcept {
  switch (sharding) {
    case Sharding::kNone:
      break;
    case Sharding::kOptimizer:
      return {GradientReduction::kEachStep, ParameterGather::kEachStep};
    case Sharding::kGradients:
      if (!traits(framework).fully_shards)
        return {GradientReduction::kEachMicroBatch, ParameterGather::kEachStep};
      return stages > 1 ? ReplicaExchange{GradientReduction::kEachStep, ParameterGather::kEachStep}
                        : ReplicaExchange{GradientReduction::kEachMicroBatch, ParameterGather::kEachForward};
    case Sharding::kParameters:
      return {GradientReduction::kEachMicroBatch, ParameterGather::kEachPass};
  }
  return {};
}

}  // namespace tombolo::planner
