#include "planner/model/replica_exchange.h"

#include <gtest/gtest.h>

#include <tuple>

namespace tombolo::planner {
namespace {

TEST(ReplicaExchange, FollowsFromShardingFrameworkAndStages) {
  using Reduction = GradientReduction;
  using Gather = ParameterGather;
  const auto of = [](Framework framework, Sharding sharding, int stages) {
    const ReplicaExchange exchange = replica_exchange(framework, sharding, stages);
    return std::tuple(exchange.reduction, exchange.gather);
  };
  for (const Framework one :
       {Framework::kMegatron, Framework::kDeepSpeed, Framework::kTorchTitan, Framework::kAny})
    for (const int stages : {1, 4}) {
      EXPECT_EQ(of(one, Sharding::kNone, stages), std::tuple(Reduction::kEachStep, Gather::kNever));
      EXPECT_EQ(of(one, Sharding::kOptimizer, stages), std::tuple(Reduction::kEachStep, Gather::kEachStep));
      EXPECT_EQ(of(one, Sharding::kParameters, stages),
                std::tuple(Reduction::kEachMicroBatch, Gather::kEachPass));
    }
  EXPECT_EQ(of(Framework::kDeepSpeed, Sharding::kGradients, 1),
            std::tuple(Reduction::kEachMicroBatch, Gather::kEachStep));
  EXPECT_EQ(of(Framework::kTorchTitan, Sharding::kGradients, 1),
            std::tuple(Reduction::kEachMicroBatch, Gather::kEachForward));
  EXPECT_EQ(of(Framework::kTorchTitan, Sharding::kGradients, 2),
            std::tuple(Reduction::kEachStep, Gather::kEachStep));
}

}  // namespace
}  // namespace tombolo::planner
