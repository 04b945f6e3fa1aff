#include <gtest/gtest.h>

#include "planner/testing/testing_strategies.h"

namespace tombolo::planner {
namespace {

using namespace testing;

TEST(Pipette, KeepsStagesTogetherOnFastLinks) {
  // Pairs of hosts by fast links, in an order that the launcher's does not follow.
  auto cluster = make_cluster({{"a", 4}}, 1e5);
  for (auto& link : cluster.links) {
    const int from = link.from_host.back() - '0', to = link.to_host.back() - '0';
    if ((from + to) % 4 == 3) link.bytes_per_second = 1e8;  // a0 with a3, a1 with a2
  }
  Job job;
  job.model = small_model(4);
  job.global_batch = 16;
  job.pipeline = 2;
  job.data = 2;
  const double pipette = seconds_by(cluster, job, "pipette");
  EXPECT_LT(pipette, 0.9 * seconds_by(cluster, job, "megatron"));
}

TEST(Pipette, AllStagesAreEqualUpToOneLayer) {
  auto cluster = make_cluster({{"fast", 2, 1, topology::NicKind::kTcp, 0, 4e9}, {"slow", 2, 1}}, 1e8);
  Job job;
  job.model = small_model(10);
  job.global_batch = 16;
  job.pipeline = 4;
  job.data = 1;
  PlanOptions options;
  options.strategy = "pipette";
  const Plan plan = make_plan(cluster, job, options);
  std::vector<int> layers;
  for (const Stage& stage : plan.stages()) layers.push_back(stage.layers);
  EXPECT_EQ(layers, (std::vector<int>{3, 3, 2, 2}));
}

}  // namespace
}  // namespace tombolo::planner
