#include "trainer/run/train.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/temporary_folder.h"
#include "collectives/testing/test_support.h"
#include "trainer/model/checkpoint.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer {
namespace {

using collectives::Communicator;

class TrainingRun : public testing::Test {
 protected:
  TrainingRun() {
    folder_.write("text", std::string(2000, 'a') + std::string(2000, 'b'));
    options_.data = folder_.file("text");
    options_.layers = 2;
    options_.width = 8;
    options_.heads = 1;
    options_.context = 8;
    options_.batch = 4;
    options_.steps = 4;
    options_.optimizer.learning_rate = 1e-2;
    hooks_.started = [this](const Job& job, const StageCompute& compute) {
      calls_ += "started ";
      EXPECT_EQ(job.shape.width, 8);
      EXPECT_GT(compute.memory().parameters, 0U);
    };
    hooks_.stepped = [this](const StepReport& report) { calls_ += std::to_string(report.step) + " "; };
  }

  std::vector<Json> log_lines() const {
    std::vector<Json> lines;
    std::istringstream text(folder_.read("log"));
    for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
    return lines;
  }
  std::size_t files() const {
    const auto all = std::filesystem::directory_iterator(folder_.path());
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

  TemporaryFolder folder_;
  TrainOptions options_;
  TrainHooks hooks_;
  std::string calls_;
};

TEST_F(TrainingRun, LogsEveryStepAndSavesWhatItLearnt) {
  options_.log = folder_.file("log");
  options_.save = folder_.file("model");
  const TrainResult result = train(options_, resolve(options_), nullptr, hooks_);
  EXPECT_EQ(result.steps, 4);
  EXPECT_FALSE(result.interrupted);
  EXPECT_TRUE(result.parameters.empty()) << "no sample is wanted";
  EXPECT_EQ(calls_, "started 0 1 2 3 ");
  const auto lines = log_lines();
  ASSERT_EQ(lines.size(), 4U);
  for (std::size_t step = 0; step < lines.size(); ++step) {
    EXPECT_EQ(lines[step]["step"], step);
    for (const char* field : {"loss", "grad_norm", "tokens_per_second", "step_seconds"})
      EXPECT_GT(lines[step][field].get<double>(), 0) << field;
    EXPECT_EQ(lines[step]["learning_rate"].get<double>(),
              learning_rate_at(options_.optimizer, static_cast<int>(step)));
  }
  EXPECT_LT(lines.back()["loss"], lines.front()["loss"]);
  EXPECT_EQ(read_checkpoint_shape(options_.save).width, 8);
}

TEST_F(TrainingRun, GoesOnFromWhatAnotherSaved) {
  options_.save = folder_.file("model");
  train(options_, resolve(options_), nullptr, {});
  options_.log = folder_.file("log");
  options_.init = options_.save;
  options_.layers = options_.width = options_.heads = options_.context = {};
  options_.steps = 1;
  train(options_, resolve(options_), nullptr, {});
  const double resumed = log_lines().at(0)["loss"];
  options_.init = "random:1337";
  options_.layers = 2;
  options_.width = options_.context = 8;
  options_.heads = 1;
  train(options_, resolve(options_), nullptr, {});
  EXPECT_LT(resumed, log_lines().at(0)["loss"].get<double>());
}

TEST_F(TrainingRun, StopsBetweenStepsAndSavesButGivesNoSample) {
  options_.save = folder_.file("model");
  options_.sample.tokens = 5;
  options_.steps = 100;
  int asked = 0;
  hooks_.stop_requested = [&] { return ++asked == 2; };
  const TrainResult result = train(options_, resolve(options_), nullptr, hooks_);
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.steps, 2);
  EXPECT_EQ(calls_, "started 0 1 ");
  EXPECT_TRUE(result.parameters.empty());
  EXPECT_NO_THROW(read_checkpoint_shape(options_.save));
}

TEST_F(TrainingRun, HandsOverTheParametersThatASampleTakes) {
  options_.sample.tokens = 5;
  const TrainResult result = train(options_, resolve(options_), nullptr, {});
  EXPECT_EQ(result.shape.context, 8);
  EXPECT_EQ(result.parameters.size(), parameter_count(result.shape));
}

TEST_F(TrainingRun, OfNoStepsSavesTheModelAsItBegan) {
  options_.steps = 0;
  options_.save = folder_.file("model");
  options_.measured = folder_.file("measured");
  options_.traffic = folder_.file("traffic");
  EXPECT_EQ(train(options_, resolve(options_), nullptr, hooks_).steps, 0);
  EXPECT_EQ(calls_, "started ");
  EXPECT_NO_THROW(read_checkpoint_shape(options_.save));
  EXPECT_FALSE(std::filesystem::exists(options_.measured)) << "there is nothing to tell";
  EXPECT_EQ(Json::parse(folder_.read("traffic"))["steps"], 0);
}

TEST_F(TrainingRun, RefusesBeforeTheFirstStepWhatItCouldNotWriteAfterTheLast) {
  const std::string nowhere = folder_.file("no/where");
  for (std::string TrainOptions::*path : {&TrainOptions::log, &TrainOptions::save, &TrainOptions::timeline,
                                          &TrainOptions::traffic, &TrainOptions::measured}) {
    TrainOptions options = options_;
    options.*path = nowhere;
    test::expect_refusal([&] { train(options, resolve(options), nullptr, hooks_); },
                         {"cannot write", "no/where", "is not a folder"});
  }
  options_.log = folder_.path().string();
  test::expect_refusal([&] { train(options_, resolve(options_), nullptr, hooks_); },
                       {"log ", ": creating", "Is a directory"}, Cause::kSystem);
  EXPECT_EQ(calls_, "");
  EXPECT_EQ(files(), 1U) << "the text alone";
}

TEST_F(TrainingRun, OutlastsALogThatCannotBeWritten) {
  options_.log = "/dev/full";
  const TrainResult result = train(options_, resolve(options_), nullptr, hooks_);
  EXPECT_EQ(calls_, "started 0 1 2 3 ");
  ASSERT_EQ(result.unwritten.size(), 1U);
  EXPECT_NE(result.unwritten[0].find("/dev/full"), std::string::npos);
}

TEST_F(TrainingRun, OfSeveralRanksIsReportedByRankZeroAlone) {
  options_.pipeline = 2;
  options_.log = folder_.file("log");
  options_.save = folder_.file("model");
  options_.timeline = folder_.file("timeline");
  options_.traffic = folder_.file("traffic");
  options_.sample.tokens = 1;
  collectives::test::expect_fine(collectives::test::run_ranks("AA", [&](Communicator& world) {
    TrainHooks hooks;
    if (world.rank() == 0) {
      hooks = hooks_;
    } else {
      hooks.started = [](const Job&, const StageCompute&) { ADD_FAILURE() << "rank 1 reported"; };
      hooks.stepped = [](const StepReport&) { ADD_FAILURE() << "rank 1 reported"; };
    }
    TrainOptions options = options_;
    // Only rank 0 writes, so that the others need not have the folder.
    if (world.rank() == 1) options.save = options.log = folder_.file("no/where");
    const TrainResult result = train(options, resolve(options), &world, hooks);
    EXPECT_EQ(result.steps, 4);
    EXPECT_EQ(result.parameters.empty(), world.rank() == 1);
  }));
  EXPECT_EQ(calls_, "started 0 1 2 3 ");
  EXPECT_EQ(log_lines().size(), 4U);
  EXPECT_EQ(read_checkpoint_shape(folder_.file("model")).layers, 2);
  EXPECT_EQ(Json::parse(folder_.read("traffic"))["links"].size(), 2U);
  EXPECT_EQ(Json::parse(folder_.read("timeline"))["otherData"]["ranks"].size(), 2U);
}

TEST_F(TrainingRun, OfSeveralRanksStopsOnAllWhereOneIsAsked) {
  options_.pipeline = 2;
  options_.steps = 100;
  collectives::test::expect_fine(collectives::test::run_ranks("AA", [&](Communicator& world) {
    TrainHooks hooks;
    int asked = 0;
    if (world.rank() == 1) hooks.stop_requested = [&] { return ++asked == 3; };
    const TrainResult result = train(options_, resolve(options_), &world, hooks);
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(result.steps, 3);
  }));
}

}  // namespace
}  // namespace tombolo::trainer
