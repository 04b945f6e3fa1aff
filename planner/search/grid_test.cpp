#include "planner/search/grid.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "base/error.h"
#include "planner/cost/memory.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::gpu_cluster;
using testing::make_cluster;
using testing::SearchSetting;
using testing::small_model;

std::vector<int> layers_that_divide(int layers, int stages, const Placement&, const PlanOptions&) {
  return std::vector<int>(at(stages), layers / stages);
}

/// The last stage takes what the others leave.
std::vector<int> one_layer_each(int layers, int stages, const Placement&, const PlanOptions&) {
  std::vector<int> split(at(stages), 1);
  split.back() = layers - (stages - 1);
  return split;
}

constexpr GridRule kDividing{
    .place = place_in_launcher_order, .split = layers_that_divide, .equal_stages = true};

Job plain_job(int layers, int rows) {
  Job job;
  job.model = small_model(layers);
  job.global_batch = rows;
  job.reserve_bytes = 0;
  return job;
}

TEST(Grid, EveryDivisionOfRanksAndRowsIsACandidateOnce) {
  const SearchSetting setting(gpu_cluster({{"a", 4, 1}}, 1e8), plain_job(8, 8));
  std::set<std::tuple<int, int, int>> seen;
  for (const Candidate& candidate : enumerate(setting.context, setting.job, kDividing).all) {
    const Job& job = candidate.plan.job;
    EXPECT_EQ(job.pipeline * job.data, 4);
    EXPECT_EQ(8 / job.data % job.micro_batch, 0);
    EXPECT_TRUE(seen.insert({job.pipeline, job.data, job.micro_batch}).second);
    EXPECT_LE(candidate.bound, simulate(candidate.plan, setting.view, {}).step_seconds * (1 + 1e-9));
  }
  // 4 replicas of 2 rows, 2 of 4, 1 of 8: as many micro-batches as those have divisors.
  EXPECT_EQ(seen.size(), 2u + 3u + 4u);
}

TEST(Grid, TensorDegreesStayInsideHosts) {
  const SearchSetting setting(gpu_cluster({{"a", 2, 2}}, 1e8), testing::free_job(8, 8));
  std::set<int> degrees;
  for (const Candidate& candidate : enumerate(setting.context, setting.job, kDividing).all)
    degrees.insert(candidate.plan.job.tensor);
  EXPECT_EQ(degrees, (std::set<int>{1, 2}));
}

TEST(Grid, TakesOnlyWhatTheJobFixes) {
  const SearchSetting setting(gpu_cluster({{"a", 4, 1}}, 1e8), plain_job(8, 8));
  Job job = setting.job;
  job.pipeline = 2;
  job.micro_batch = 2;
  const Candidates found = enumerate(setting.context, job, kDividing);
  ASSERT_EQ(found.all.size(), 1u);
  EXPECT_EQ(found.all[0].plan.job.data, 2);
  job.data = 3;
  EXPECT_THROW(enumerate(setting.context, job, kDividing), Error) << "2 x 3 is not 4 ranks";
  job.pipeline = 0;
  EXPECT_THROW(enumerate(setting.context, job, kDividing), Error) << "3 does not divide 4";
}

TEST(Grid, SaysWhyAGridWasExcluded) {
  const SearchSetting setting(gpu_cluster({{"a", 4, 1}}, 1e8), plain_job(3, 3));
  const Candidates found = enumerate(setting.context, setting.job, kDividing);
  EXPECT_TRUE(found.all.empty());
  ASSERT_EQ(found.excluded.size(), 3u);
  EXPECT_NE(found.excluded[0].find("3 rows does not divide into 4 replicas"), std::string::npos)
      << found.excluded[0];
  EXPECT_NE(found.excluded[1].find("3 layers do not divide into 2 stages"), std::string::npos)
      << found.excluded[1];
  EXPECT_NE(found.excluded[2].find("more stages than the 3 layers"), std::string::npos) << found.excluded[2];
}

TEST(Grid, MovesLayersToTheNearestStageWithRoomWhereTheRuleDoes) {
  auto cluster = gpu_cluster({{"a", 3, 1}}, 1e8);
  Job job = plain_job(9, 4);
  job.pipeline = 3;
  job.micro_batch = 1;
  GridRule rule{.place = place_in_launcher_order, .split = one_layer_each};
  std::uint64_t seven = 0, five = 0;
  {
    const SearchSetting setting(cluster, job);
    const Candidate candidate = enumerate(setting.context, job, rule).all.at(0);
    EXPECT_EQ(candidate.plan.stage(2).layers, 7);
    seven = candidate.plan.prediction.memory[2].total;
    Plan smaller = candidate.plan;
    smaller.pipelines = equal_pipelines(smaller.job, to_stages({2, 2, 5}));
    five = memory_by_rank(smaller)[2].total;
  }
  cluster.hosts[2].devices[0].memory_bytes = static_cast<double>(five);
  const SearchSetting setting(cluster, job);
  const Candidate stays = enumerate(setting.context, job, rule).all.at(0);
  EXPECT_EQ(stays.missing_bytes, seven - five);
  EXPECT_EQ(stays.missing_rank, 2);
  rule.moves_layers = true;
  const Candidate moved = enumerate(setting.context, job, rule).all.at(0);
  EXPECT_EQ(moved.missing_bytes, 0u);
  EXPECT_EQ(moved.plan.stage(2).layers, 5);
  EXPECT_EQ(moved.plan.stage(1).layers, 3) << "the neighbour has room for both";
  EXPECT_EQ(moved.plan.notes.back(), "2 layers moved from stages that lacked memory for them");
}

TEST(Grid, MovesNoLayersWhereTheFrameworkCouldNotExpressIt) {
  auto cluster = gpu_cluster({{"a", 3, 1}}, 1e8);
  Job job = plain_job(9, 4);
  job.framework = Framework::kDeepSpeed;
  job.pipeline = 3;
  job.micro_batch = 1;
  GridRule rule = kDividing;
  rule.moves_layers = true;
  std::uint64_t needed = 0;
  {
    const SearchSetting setting(cluster, job);
    needed = enumerate(setting.context, job, rule).all.at(0).plan.prediction.memory[0].total;
  }
  cluster.hosts[0].devices[0].memory_bytes = static_cast<double>(needed - 1);
  SearchSetting setting(cluster, job);
  const Candidates found = enumerate(setting.context, job, rule);
  ASSERT_EQ(found.all.size(), 1u) << "excluded: " << (found.excluded.empty() ? "" : found.excluded.front());
  EXPECT_EQ(found.all[0].missing_bytes, 1u);
  EXPECT_EQ(found.all[0].plan.stage(0).layers, 3);
  // So it is by the next way to save memory that the layout fits.
  setting.options.savings = {{Recompute::kNone}, {Recompute::kFull}};
  const Candidates saved = enumerate(setting.context, job, rule);
  ASSERT_EQ(saved.all.size(), 1u);
  EXPECT_EQ(saved.all[0].missing_bytes, 0u);
  EXPECT_EQ(saved.all[0].plan.job.recompute, Recompute::kFull);
  EXPECT_EQ(saved.all[0].plan.stage(0).layers, 3);
}

TEST(Grid, HasACandidateForEachShardingWithTheLeastRecomputationThatFits) {
  auto cluster = gpu_cluster({{"a", 2, 1}}, 1e8);
  Job job = testing::free_job(8, 8);
  job.tensor = job.pipeline = 1;
  job.micro_batch = 4;
  const auto savings = [&](Candidates found) {
    std::vector<Saving> all;
    for (const Candidate& one : found.all) all.push_back(one.plan.job.saving());
    return all;
  };
  SearchSetting roomy(cluster, job);
  roomy.options.savings = {{Recompute::kNone, Sharding::kNone},
                           {Recompute::kNone, Sharding::kOptimizer},
                           {Recompute::kFull, Sharding::kNone},
                           {Recompute::kFull, Sharding::kOptimizer}};
  const Candidates all = enumerate(roomy.context, job, kDividing);
  EXPECT_EQ(savings(all), (std::vector<Saving>{{Recompute::kNone, Sharding::kNone},
                                               {Recompute::kNone, Sharding::kOptimizer}}));
  for (auto& host : cluster.hosts)
    host.devices[0].memory_bytes = static_cast<double>(all.all[0].plan.prediction.memory[0].total - 1);
  SearchSetting tight(cluster, job);
  tight.options.savings = roomy.options.savings;
  EXPECT_EQ(
      savings(enumerate(tight.context, job, kDividing)),
      (std::vector<Saving>{{Recompute::kFull, Sharding::kNone}, {Recompute::kNone, Sharding::kOptimizer}}));
}

TEST(Grid, LeavesOutWhatTheFrameworkCannotExpress) {
  const auto cluster = gpu_cluster({{"a", 2, 2}}, 1e8);
  Job job = testing::free_job(8, 8);
  job.tensor = 1;
  SearchSetting setting(cluster, job);
  setting.slots = launcher_slots(setting.view, {"a0", "a1", "a0", "a1"});
  const std::size_t free = enumerate(setting.context, job, kDividing).all.size();
  job.framework = Framework::kMegatron;
  const Candidates found = enumerate(setting.context, job, kDividing);
  // One stage of four replicas or the other way round: no order of these has each host's ranks in a row.
  EXPECT_LT(found.all.size(), free);
  EXPECT_TRUE(std::ranges::any_of(found.excluded, [](const std::string& why) {
    return why.find("in a row neither by stage") != std::string::npos;
  }));
}

}  // namespace
}  // namespace tombolo::planner
