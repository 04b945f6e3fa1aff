// Validation must give the same loss in every layout, and leave training as it is to the bit. Ranks are
// threads.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/randomized_test.h"
#include "base/temporary_folder.h"
#include "collectives/testing/test_support.h"
#include "trainer/data/text_file.h"
#include "trainer/pipeline/pipeline_trainer.h"

namespace tombolo::trainer {
namespace {

using collectives::Communicator;

constexpr int kBatch = 12;
constexpr int kSteps = 6;

struct Curve {
  std::vector<double> losses, norms, validation;
};

class Validation : public testing::Test {
 protected:
  Validation() {
    job_.shape.context = 16;
    job_.shape.padded_vocabulary = 256;
    job_.shape.layers = 4;
    job_.shape.heads = 2;
    job_.shape.width = 16;
    job_.optimizer.learning_rate = 3e-3;
    job_.data = folder_.file("text");
    std::mt19937 random(test_seed());
    for (const char* name : {"text", "other"}) {
      std::string text;
      while (text.size() < 3000) text += std::array{"ab ", "stone ", "water\n", "the "}[random() % 4];
      folder_.write(name, text);
    }
  }

  Curve run(Communicator* world, const ParallelConfig& layout, bool validate) const {
    Job job = job_;
    job.parallel = layout;
    Timeline timeline(Clock::steady().now());
    PipelineTrainer trainer(job, world, timeline);
    Rows rows(std::make_unique<TextFile>(std::vector{folder_.file("other")}), job.shape.context, {});
    Curve curve;
    for (int step = 0; step < kSteps; ++step) {
      const StepReport report = trainer.step(step, false);
      curve.losses.push_back(report.loss);
      curve.norms.push_back(report.gradient_norm);
      if (validate) curve.validation.push_back(trainer.validate(rows, 1 + step % 2));
    }
    if (world != nullptr) world->barrier();
    return curve;
  }

  ParallelConfig layout(int pipeline, int replicas, int micro_batch) const {
    return even_parallel_config(job_.shape, pipeline, replicas, kBatch, micro_batch);
  }

  TemporaryFolder folder_;
  Job job_;
};

TEST_F(Validation, GivesTheSameLossInEveryLayoutAndChangesNoBitOfTraining) {
  const Curve alone = run(nullptr, layout(1, 1, kBatch), true);
  EXPECT_EQ(run(nullptr, layout(1, 1, kBatch), false).losses, alone.losses);
  EXPECT_LT(alone.validation.back(), alone.validation.front());
  for (const ParallelConfig& many : {layout(2, 1, 3), layout(1, 2, 2), layout(2, 2, 1), layout(4, 1, 4)}) {
    std::vector<Curve> with(static_cast<std::size_t>(many.ranks())), without = with;
    const auto one_host = [](collectives::Options& options) {
      options.router.host.name = "here";
      options.identity.local_rank = options.identity.rank;
    };
    for (const bool validate : {true, false})
      collectives::test::expect_fine(collectives::test::run_ranks(
          std::string(with.size(), 'A'),
          [&](Communicator& world) {
            (validate ? with : without)[static_cast<std::size_t>(world.rank())] = run(&world, many, validate);
          },
          one_host));
    for (std::size_t rank = 0; rank < with.size(); ++rank) {
      EXPECT_EQ(with[rank].losses, without[rank].losses);
      EXPECT_EQ(with[rank].norms, without[rank].norms);
      EXPECT_EQ(with[rank].validation, with[0].validation);
      for (std::size_t step = 0; step < kSteps; ++step)
        EXPECT_NEAR(with[rank].validation[step], alone.validation[step], 1e-4);
    }
  }
}

// The loss is what a step that trains on the same rows reports before it updates.
TEST_F(Validation, IsTheLossOfAStepOnTheSameRows) {
  Job job = job_;
  job.parallel = layout(1, 1, 4);
  Timeline timeline(Clock::steady().now());
  PipelineTrainer trainer(job, nullptr, timeline);
  Rows rows(std::make_unique<TextFile>(std::vector{job.data}), job.shape.context, {});
  const double before = trainer.validate(rows, 1);
  EXPECT_NEAR(trainer.step(0, false).loss, before, 1e-12);
  EXPECT_LT(trainer.validate(rows, 1), before);
}

}  // namespace
}  // namespace tombolo::trainer
