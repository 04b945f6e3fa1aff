#include <gtest/gtest.h>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "trainer/run/train.h"

namespace tombolo::trainer {
namespace {

class Resolve : public testing::Test {
 protected:
  Resolve() {
    planner::Plan plan;
    plan.strategy = "holmes";
    plan.routing = "per-peer";
    planner::Model& model = plan.job.model;
    model.name = "small";
    model.layers = 6;
    model.hidden = 64;
    model.heads = 2;
    model.context = 32;
    model.vocabulary = 256;
    plan.job.global_batch = 12;
    plan.job.micro_batch = 3;
    plan.job.pipeline = 2;
    plan.job.data = 2;
    plan.pipelines = planner::equal_pipelines(plan.job, {{0, 2}, {2, 4}});
    plan.ranks = {{"a", 0, 0, 0}, {"b", 0, 1, 0}, {"c", 0, 0, 1}, {"d", 0, 1, 1}};
    plan.prediction.memory.resize(4);
    plan.save(path_);
    options_.data = "text";
    options_.plan = path_;
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("plan.json");
  TrainOptions options_;
};

TEST_F(Resolve, APlanDecidesModelBatchAndLayout) {
  const Job job = resolve(options_);
  EXPECT_EQ(job.shape.layers, 6);
  EXPECT_EQ(job.shape.width, 64);
  EXPECT_EQ(job.shape.context, 32);
  EXPECT_EQ(job.parallel.global_batch, 12);
  EXPECT_EQ(job.parallel.micro_batch, 3);
  EXPECT_EQ(job.parallel.micro_batches(), 2);
  EXPECT_EQ(job.parallel.stages[1].layers, 4);
  EXPECT_EQ(job.parallel.rank_at(0, 1), 2);
  ASSERT_TRUE(job.plan);
  EXPECT_EQ(job.plan->routing, "per-peer");
}

TEST_F(Resolve, RecomputationIsThePlansUnlessItIsAskedFor) {
  EXPECT_EQ(resolve(options_).recompute, planner::Recompute::kNone);
  options_.recompute = planner::Recompute::kFull;
  EXPECT_EQ(resolve(options_).recompute, planner::Recompute::kFull);
  auto plan = planner::Plan::load(path_);
  plan.job.recompute = planner::Recompute::kFull;
  plan.save(path_);
  options_.recompute.reset();
  EXPECT_EQ(resolve(options_).recompute, planner::Recompute::kFull);
  options_.recompute = planner::Recompute::kNone;
  EXPECT_EQ(resolve(options_).recompute, planner::Recompute::kNone);
}

TEST_F(Resolve, PrecisionsAreThoseOfAPlanForGpusUnlessTheyAreAskedFor) {
  using compute::Precision;
  EXPECT_EQ(resolve(options_).precision, Precision::kFloat32);
  auto plan = planner::Plan::load(path_);
  plan.job.device = planner::TrainerDevice::kCuda;
  plan.job.model.bytes_per_value = 2;
  plan.job.moment_bytes = 2;
  plan.save(path_);
  EXPECT_EQ(resolve(options_).precision, Precision::kBfloat16);
  EXPECT_EQ(resolve(options_).moments, Precision::kBfloat16);
  options_.precision = options_.moments = Precision::kFloat32;
  EXPECT_EQ(resolve(options_).precision, Precision::kFloat32);
  EXPECT_EQ(resolve(options_).moments, Precision::kFloat32);
}

TEST_F(Resolve, AnOptionThatContradictsThePlanIsNamed) {
  options_.batch = 12;
  options_.layers = 6;
  resolve(options_);  // saying the same is fine
  options_.layers = 5;
  try {
    resolve(options_);
    FAIL() << "--layers 5 was accepted beside a plan for 6";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    EXPECT_NE(std::string(error.what()).find("--layers 5 contradicts plan"), std::string::npos)
        << error.what();
  }
  options_.layers.reset();
  options_.pipeline = 2;
  EXPECT_THROW(resolve(options_), Error);
}

TEST_F(Resolve, AModelThatTheTrainerCannotTrainIsRefused) {
  const auto plan = planner::Plan::load(path_);
  const auto refuses = [&](planner::Plan changed, const std::string& word) {
    changed.save(path_);
    try {
      resolve(options_);
      ADD_FAILURE() << word << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kUnsupported);
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  auto gated = plan, halves = plan;
  gated.job.model.gated = true;
  refuses(gated, "a gated MLP");
  halves.job.model.bytes_per_value = 2;
  refuses(halves, "bytes=4");
}

TEST(ResolveWithoutAPlan, DefaultsAreThoseOfOneRank) {
  const TemporaryFolder folder;
  folder.write("text", "some text");
  TrainOptions options;
  options.data = folder.file("text");
  const Job job = resolve(options);
  EXPECT_EQ(job.shape.vocabulary, 256);
  EXPECT_EQ(job.shape.layers, 4);
  EXPECT_EQ(job.parallel.ranks(), 1);
  EXPECT_EQ(job.parallel.micro_batch, 8);
  options.vocabulary = 300;
  EXPECT_EQ(resolve(options).shape.padded_vocabulary, 384);
}

}  // namespace
}  // namespace tombolo::trainer
