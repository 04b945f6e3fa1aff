#include "planner/explain/remedies.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::gpu_cluster;
using testing::SearchSetting;

std::vector<int> equal_layers(int layers, int stages, const Placement&, const PlanOptions&) {
  return std::vector<int>(at(stages), layers / stages);
}

constexpr GridRule kEqualLayers{
    .place = place_in_launcher_order, .split = equal_layers, .equal_stages = true};

std::string message_of(const SearchSetting& setting, const Job& job) {
  try {
    fail_nothing_fits(setting.context, job, kEqualLayers, enumerate(setting.context, job, kEqualLayers).all);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Remedies, NameTheLayoutInTheUsersWords) {
  Job job = testing::free_job(8, 8);
  job.pipeline = 2;
  job.data = 4;
  job.tensor = 1;
  job.micro_batch = 1;
  EXPECT_EQ(layout_text(job), "pipeline 2, data 4, micro-batches of 1 row");
  job.tensor = 8;
  job.schedule = Schedule::kInterleaved;
  job.chunks = 2;
  job.recompute = Recompute::kFull;
  job.sharding = Sharding::kOptimizer;
  EXPECT_EQ(
      layout_text(job),
      "pipeline 2, data 4, tensor 8, schedule interleaved of 2 chunks, recomputing full, sharded optimizer, "
      "micro-batches of 1 row");
}

TEST(Remedies, AnotherLayoutComesFirst) {
  // With all four devices as replicas each holds the whole model; as stages it fits.
  auto cluster = gpu_cluster({{"a", 4, 1}}, 1e8);
  Job job;
  job.reserve_bytes = 0;
  job.model = testing::small_model(8);
  job.global_batch = 8;
  job.pipeline = 4;
  job.data = 1;
  job.micro_batch = 1;
  {
    const SearchSetting roomy(cluster, job);
    const Plan plan = enumerate(roomy.context, job, kEqualLayers).all.at(0).plan;
    double most = 0;
    for (const RankMemory& one : plan.prediction.memory)
      most = std::max(most, static_cast<double>(one.total));
    for (auto& host : cluster.hosts) host.devices[0].memory_bytes = most;
  }
  const SearchSetting setting(cluster, job);
  job.pipeline = 1;
  job.data = 4;
  const std::string text = message_of(setting, job);
  EXPECT_NE(text.find("The closest (pipeline 1, data 4, micro-batches of 1 row) lacks"), std::string::npos)
      << text;
  EXPECT_NE(text.find("It would fit with pipeline 4, data 1, micro-batches of 1 row, or with "),
            std::string::npos)
      << text;
}

TEST(Remedies, WhereOneLayerIsTooLargeOnlyASmallerModelHelps) {
  auto cluster = gpu_cluster({{"a", 2, 1}}, 1e8);
  for (auto& host : cluster.hosts) host.devices[0].memory_bytes = 1000;
  Job job;
  job.reserve_bytes = 0;
  job.model = testing::small_model(2);
  job.global_batch = 2;
  const SearchSetting setting(cluster, job);
  const std::string text = message_of(setting, job);
  EXPECT_NE(text.find("with a smaller width, context or vocabulary"), std::string::npos) << text;
}

}  // namespace
}  // namespace tombolo::planner
