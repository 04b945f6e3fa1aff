#include "trainer/run/run_files.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/temporary_folder.h"
#include "collectives/testing/test_support.h"
#include "planner/simulate/measured_run.h"

namespace tombolo::trainer {
namespace {

using collectives::Communicator;

class RunFiles : public testing::Test {
 protected:
  RunFiles() {
    folder_.write("text", std::string(1000, 'a'));
    job_.data = folder_.file("text");
    job_.shape.context = 8;
    job_.shape.padded_vocabulary = 256;
    job_.shape.layers = 2;
    job_.shape.heads = 1;
    job_.shape.width = 8;
  }

  /// Trains some steps on this rank and writes all three files.
  void train(Communicator* world, int steps, int first_step = 0) {
    Timeline timeline(Clock::steady().now());
    timeline.keep(1, 1);
    timeline.keep_steps();
    PipelineTrainer trainer(job_, world, timeline);
    const auto before = trainer.traffic();
    std::vector<double> seconds;
    for (int step = first_step; step < first_step + steps; ++step)
      seconds.push_back(trainer.step(step, false).seconds);
    const auto after = trainer.traffic();
    const RunFacts facts{world, trainer, timeline, before, after, seconds};
    const Json files[] = {traffic_file(facts), timeline_file(facts), measured_file(facts)};
    const char* names[] = {"traffic", "timeline", "measured"};
    if (world != nullptr) world->barrier();
    for (std::size_t file = 0; file < 3; ++file) {
      const bool rank_zero = world == nullptr || world->rank() == 0;
      EXPECT_EQ(files[file].is_null(), !rank_zero) << names[file];
      if (rank_zero) write_json_file(folder_.file(names[file]), files[file]);
    }
  }

  Json json(const char* name) const { return Json::parse(folder_.read(name)); }

  TemporaryFolder folder_;
  Job job_;
};

TEST_F(RunFiles, OfOneRankHoldItsStepsAndNoTraffic) {
  job_.parallel = even_parallel_config(job_.shape, 1, 1, 4, 2);
  train(nullptr, 6);
  EXPECT_EQ(json("traffic"), (Json{{"steps", 6}, {"links", Json::array()}}));
  const Json timeline = json("timeline");
  EXPECT_EQ(timeline["otherData"]["steps"], 6);
  ASSERT_EQ(timeline["otherData"]["ranks"].size(), 1U);
  EXPECT_GT(timeline["otherData"]["ranks"][0]["compute_seconds"], 0.0);
  std::size_t forwards = 0;
  for (const Json& event : timeline["traceEvents"]) {
    if (event["ph"] != "X") continue;
    EXPECT_EQ(event["args"]["step"], 1) << "only one step was to be kept";
    forwards += event["name"] == "forward" ? 1 : 0;
  }
  EXPECT_EQ(forwards, 2U) << "one bar per micro-batch";
  const auto measured = planner::MeasuredRun::load(folder_.file("measured"));
  EXPECT_EQ(measured.step_seconds.size(), 6U);
  EXPECT_EQ(measured.warm_up, planner::MeasuredRun::warm_up_of(6));
  ASSERT_EQ(measured.ranks.size(), 1U);
  EXPECT_GT(measured.ranks[0].seconds.forward, 0);
  EXPECT_TRUE(measured.ranks[0].processor);
}

TEST_F(RunFiles, OfSeveralRanksHoldTheirBytesPerLinkWithoutTheSetUp) {
  job_.parallel = even_parallel_config(job_.shape, 2, 1, 4, 2);
  collectives::test::expect_fine(
      collectives::test::run_ranks("AA", [this](Communicator& world) { train(&world, 3); }));
  const Json traffic = json("traffic");
  ASSERT_EQ(traffic["links"].size(), 2U) << traffic.dump(1);
  // Activations or their gradients: 4 rows of 8 tokens of 8 floats in every step; and the embedding's
  // gradient.
  const double payload = 3 * 4.0 * (4 * 8 * 8 + 256 * 8);
  for (const Json& link : traffic["links"]) {
    EXPECT_GE(link["bytes"], payload) << link.dump();
    EXPECT_LT(link["bytes"], 1.2 * payload) << link.dump();
  }
  EXPECT_EQ(json("timeline")["otherData"]["ranks"].size(), 2U);
  const auto measured = planner::MeasuredRun::load(folder_.file("measured"));
  ASSERT_EQ(measured.ranks.size(), 2U);
  EXPECT_EQ(measured.ranks[1].host, "host1");
  EXPECT_EQ(measured.ranks[1].stage, 1);
  ASSERT_EQ(measured.links.size(), 2U);
}

TEST_F(RunFiles, OfARunThatGoesOnHoldItsOwnStepsOnly) {
  job_.parallel = even_parallel_config(job_.shape, 1, 1, 4, 2);
  train(nullptr, 6, 100);
  const auto measured = planner::MeasuredRun::load(folder_.file("measured"));
  EXPECT_EQ(measured.step_seconds.size(), 6U);
  EXPECT_GT(measured.ranks.at(0).seconds.forward, 0) << "the median of steps that were not made";
}

// Only one of the threads that share a matrix product is timed.
TEST_F(RunFiles, OfRanksWithSeveralThreadsHoldNoProcessorTimes) {
  job_.parallel = even_parallel_config(job_.shape, 1, 1, 4, 4);
  job_.threads = 2;
  train(nullptr, 2);
  EXPECT_FALSE(planner::MeasuredRun::load(folder_.file("measured")).ranks.at(0).processor);
}

}  // namespace
}  // namespace tombolo::trainer
