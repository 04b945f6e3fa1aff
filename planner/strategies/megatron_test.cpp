#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/planner.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using namespace testing;
using topology::NicKind;

topology::ClusterFile pairs_of_hosts() {
  return make_cluster({{"b", 2, 1, NicKind::kRoce, 1e9, 5e9}, {"a", 2, 1, NicKind::kInfiniBand, 1e9, 5e9}},
                      1.2e7, 1e-4);
}

/// Two stages of two replicas.
Job job_of(int layers, int rows = 16) {
  Job job;
  job.model = small_model(layers);
  job.global_batch = rows;
  job.pipeline = job.data = 2;
  return job;
}

TEST(Megatron, TakesRanksInLauncherOrder) {
  PlanOptions options;
  options.strategy = "megatron";
  options.rank_hosts = {"a0", "b0", "a1", "b1"};
  const Plan plan = make_plan(pairs_of_hosts(), job_of(8), options);
  for (int rank = 0; rank < 4; ++rank) {
    const RankPlacement& place = plan.ranks[static_cast<std::size_t>(rank)];
    EXPECT_EQ(place.host, options.rank_hosts[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(place.stage, rank / 2);
    EXPECT_EQ(place.replica, rank % 2);
  }
  for (const Stage& stage : plan.stages()) EXPECT_EQ(stage.layers, 4);
}

TEST(Megatron, RefusesStagesThatDoNotDivideTheLayers) {
  PlanOptions options;
  options.strategy = "megatron";
  try {
    make_plan(pairs_of_hosts(), job_of(7), options);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("7 layers do not divide into 2 stages"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tombolo::planner
