// Every parallel configuration must train as one rank does. Ranks are threads; their bytes go over loopback.
#include "trainer/pipeline/pipeline_trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/error.h"
#include "base/randomized_test.h"
#include "base/temporary_folder.h"
#include "collectives/testing/test_support.h"

namespace tombolo::trainer {
namespace {

using collectives::Communicator;

/// Runs `body` on each of `ranks` ranks of one host, each in its own thread.
void with_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  const auto on_one_host = [](collectives::Options& options) {
    options.router.host.name = "here";
    options.identity.local_rank = options.identity.rank;
  };
  collectives::test::expect_fine(
      collectives::test::run_ranks(std::string(static_cast<std::size_t>(ranks), 'A'), body, on_one_host));
}

class PipelineTraining : public testing::Test {
 protected:
  PipelineTraining() {
    job_.shape.context = 24;
    job_.shape.padded_vocabulary = 256;
    job_.shape.layers = 5;
    job_.shape.heads = 2;
    job_.shape.width = 32;
    job_.optimizer.learning_rate = 3e-3;
    job_.optimizer.weight_decay = 0.1;
    job_.optimizer.clip = 0.5;
    job_.optimizer.warmup = 3;
    job_.bucket_bytes = 1;  // as many reductions as there are
    job_.data = folder_.file("text");
    std::mt19937 random(test_seed(1));
    std::string text;
    while (text.size() < 3000) text += std::array{"ab ", "stone ", "water\n", "the "}[random() % 4];
    folder_.write("text", text);
  }

  struct Run {
    std::vector<double> losses, norms;
    std::vector<float> parameters;
  };

  Run run(PipelineTrainer& trainer, int steps) {
    Run result;
    for (int step = 0; step < steps; ++step) {
      const StepReport report = trainer.step(step, false);
      result.losses.push_back(report.loss);
      result.norms.push_back(report.gradient_norm);
    }
    result.parameters = trainer.gather();
    return result;
  }

  Run alone(int steps) {
    Job job = job_;
    job.parallel = even_parallel_config(job.shape, 1, 1, batch_, batch_);
    Timeline timeline(Clock::steady().now());
    PipelineTrainer trainer(job, nullptr, timeline);
    return run(trainer, steps);
  }

  void expect_same_as_alone(const ParallelConfig& layout, int steps) {
    const Run expected = alone(steps);
    Job job = job_;
    job.parallel = layout;
    with_ranks(layout.ranks(), [&](Communicator& world) {
      Timeline timeline(Clock::steady().now());
      PipelineTrainer trainer(job, &world, timeline);
      const Run result = run(trainer, steps);
      world.barrier();
      for (std::size_t step = 0; step < expected.losses.size(); ++step) {
        EXPECT_NEAR(result.losses[step], expected.losses[step], step == 0 ? 1e-5 : 1e-4) << "step " << step;
        EXPECT_NEAR(result.norms[step], expected.norms[step], 1e-3 * expected.norms[step]) << "step " << step;
      }
      if (world.rank() != 0) return;
      ASSERT_EQ(result.parameters.size(), expected.parameters.size());
      for (std::size_t at = 0; at < expected.parameters.size(); ++at)
        ASSERT_NEAR(result.parameters[at], expected.parameters[at], 2e-3) << at;
    });
    EXPECT_LT(expected.losses.back(), expected.losses.front() - 0.5)
        << "too little was learnt to prove anything";
  }

  int batch_ = 12;
  Job job_;
  TemporaryFolder folder_;
};

struct Case {
  int pipeline, replicas, micro_batch;
};

class Layouts : public PipelineTraining, public testing::WithParamInterface<Case> {};

TEST_P(Layouts, LossNormAndParametersEqualThoseOfOneRank) {
  const Case& layout = GetParam();
  expect_same_as_alone(
      even_parallel_config(job_.shape, layout.pipeline, layout.replicas, batch_, layout.micro_batch), 30);
}

std::string case_name(const testing::TestParamInfo<Case>& layout) {
  return fmt::format("Stages{}Replicas{}Rows{}", layout.param.pipeline, layout.param.replicas,
                     layout.param.micro_batch);
}

INSTANTIATE_TEST_SUITE_P(Even, Layouts,
                         testing::Values(Case{1, 2, 3}, Case{1, 3, 4}, Case{2, 1, 1}, Case{2, 1, 12},
                                         Case{3, 1, 2}, Case{2, 2, 1}, Case{3, 2, 2}, Case{5, 1, 4}),
                         case_name);

TEST_F(PipelineTraining, EveryLayoutOfUpToEightRanksTrainsAsOneRankDoes) {
  job_.shape.layers = 8;
  job_.shape.width = 16;
  job_.shape.context = 12;
  for (int pipeline = 1; pipeline <= 8; ++pipeline)
    for (int replicas = 1; pipeline * replicas <= 8; ++replicas) {
      SCOPED_TRACE(fmt::format("{} stages x {} replicas", pipeline, replicas));
      batch_ = replicas % 5 == 0 || replicas % 7 == 0 ? 35 : 24;
      expect_same_as_alone(even_parallel_config(job_.shape, pipeline, replicas, batch_, 1), 30);
    }
}

TEST_F(PipelineTraining, MicroBatchesOnOneRankGiveTheLossOfOneBatch) {
  const Run expected = alone(10);
  for (int micro_batch : {1, 4, 6}) {
    Job job = job_;
    job.parallel = even_parallel_config(job.shape, 1, 1, batch_, micro_batch);
    Timeline timeline(Clock::steady().now());
    PipelineTrainer trainer(job, nullptr, timeline);
    const Run result = run(trainer, 10);
    for (std::size_t step = 0; step < 10; ++step)
      EXPECT_NEAR(result.losses[step], expected.losses[step], 1e-5);
  }
}

TEST_F(PipelineTraining, APlansUnevenStagesAndShuffledRanksGiveTheLossOfOneRank) {
  ParallelConfig layout = even_parallel_config(job_.shape, 2, 2, batch_, 3);
  layout.stages = {{0, 1}, {1, 4}};
  layout.coordinates = {{1, 1}, {0, 0}, {1, 0}, {0, 1}};
  expect_same_as_alone(layout, 30);
}

TEST_F(PipelineTraining, BothCopiesOfTheEmbeddingStayEqual) {
  Job job = job_;
  job.parallel = even_parallel_config(job.shape, 2, 2, batch_, 3);
  std::vector<std::vector<float>> copies(4);
  with_ranks(4, [&](Communicator& world) {
    Timeline timeline(Clock::steady().now());
    PipelineTrainer trainer(job, &world, timeline);
    for (int step = 0; step < 5; ++step) trainer.step(step, false);
    const Slice& slice = trainer.compute().layout().find(Tensor::kTokenEmbedding);
    auto& copy = copies[static_cast<std::size_t>(world.rank())];
    copy.resize(slice.elements);
    trainer.compute().read_state(StageState::kParameters, slice.offset, copy);
    world.barrier();
  });
  for (const auto& copy : copies) EXPECT_EQ(copy, copies[0]);
}

TEST_F(PipelineTraining, OneRanksWishToStopReachesAllInTheSameStep) {
  Job job = job_;
  job.parallel = even_parallel_config(job.shape, 2, 2, batch_, 3);
  std::atomic<int> stopped{0};
  with_ranks(4, [&](Communicator& world) {
    Timeline timeline(Clock::steady().now());
    PipelineTrainer trainer(job, &world, timeline);
    EXPECT_FALSE(trainer.step(0, false).interrupted);
    if (trainer.step(1, world.rank() == 2).interrupted) ++stopped;
    world.barrier();
  });
  EXPECT_EQ(stopped, 4);
}

TEST_F(PipelineTraining, DivergenceNamesStepRankAndTensorOnEveryRank) {
  Job job = job_;
  job.parallel = even_parallel_config(job.shape, 2, 2, batch_, 3);
  const int ill = job.parallel.rank_at(1, 1);
  std::atomic<int> refused{0};
  with_ranks(4, [&](Communicator& world) {
    Timeline timeline(Clock::steady().now());
    PipelineTrainer trainer(job, &world, timeline);
    trainer.step(0, false);
    if (world.rank() == ill) {
      const Slice& slice = trainer.compute().layout().find(Tensor::kQkvBias, 4);
      const std::array bad{std::numeric_limits<float>::quiet_NaN()};
      trainer.compute().write_state(StageState::kParameters, slice.offset + 7, bad);
    }
    try {
      trainer.step(1, false);
      ADD_FAILURE() << "a step with a NaN was made";
    } catch (const Error& error) {
      const std::string expected = fmt::format(
          "it began on rank {} on here (stage 1, replica 1), value of layer 4's qkvb: 1 of 96", ill);
      EXPECT_NE(std::string(error.what()).find("step 1: loss "), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
      ++refused;
    }
    world.barrier();
  });
  EXPECT_EQ(refused, 4);
}

TEST_F(PipelineTraining, TheTimelineShowsEveryTransferByPeer) {
  Job job = job_;
  job.parallel = even_parallel_config(job.shape, 3, 1, batch_, 3);
  std::vector<Json> events(3);
  with_ranks(3, [&](Communicator& world) {
    Timeline timeline(Clock::steady().now());
    timeline.keep(1, 1);
    PipelineTrainer trainer(job, &world, timeline);
    for (int step = 0; step < 3; ++step) trainer.step(step, false);
    events[static_cast<std::size_t>(world.rank())] = timeline.events(world.rank(), "");
    for (const auto& [peer, seconds] : timeline.waits()) {
      EXPECT_TRUE(peer == world.rank() - 1 || peer == world.rank() + 1) << peer;
      EXPECT_GT(seconds, 0);
    }
    world.barrier();
  });
  const auto count = [&](std::size_t rank, std::string_view name, std::string_view phase) {
    return std::ranges::count_if(
        events[rank], [&](const Json& event) { return event["name"] == name && event["ph"] == phase; });
  };
  const int micro_batches = job.parallel.micro_batches();
  for (const std::string_view phase : {"b", "e"}) {
    EXPECT_EQ(count(0, "activation to rank 1", phase), micro_batches);
    EXPECT_EQ(count(1, "activation from rank 0", phase), micro_batches);
    EXPECT_EQ(count(1, "activation to rank 2", phase), micro_batches);
    EXPECT_EQ(count(2, "gradient to rank 1", phase), micro_batches);
    EXPECT_EQ(count(1, "gradient from rank 2", phase), micro_batches);
    EXPECT_EQ(count(0, "gradient from rank 1", phase), micro_batches);
    EXPECT_EQ(count(0, "activation from rank 1", phase), 0);
  }
}

TEST_F(PipelineTraining, VotesAreAddedUpOverAllRanksAndChangeNoBit) {
  Job job = job_;
  job.parallel = even_parallel_config(job.shape, 2, 2, batch_, 3);
  std::array<double, 2> losses{};
  for (const bool voting : {false, true})
    with_ranks(4, [&](Communicator& world) {
      Timeline timeline(Clock::steady().now());
      PipelineTrainer trainer(job, &world, timeline);
      SaveVotes own;
      if (voting) (world.rank() == 2 ? own.failed : own.durable) = 1;
      const StepReport report = trainer.step(0, false, own);
      EXPECT_EQ(report.votes.durable, voting ? 3 : 0);
      EXPECT_EQ(report.votes.failed, voting ? 1 : 0);
      EXPECT_FALSE(report.interrupted);
      if (world.rank() == 0) losses[voting ? 1 : 0] = report.loss;
      world.barrier();
    });
  EXPECT_EQ(losses[0], losses[1]);
}

TEST_F(PipelineTraining, ALayoutForAnotherNumberOfRanksIsRefused) {
  Job job = job_;
  job.parallel = even_parallel_config(job.shape, 2, 2, batch_, 3);
  Timeline timeline(Clock::steady().now());
  try {
    PipelineTrainer trainer(job, nullptr, timeline);
    FAIL() << "one rank took a layout for four";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    EXPECT_NE(std::string(error.what()).find("takes 4 ranks, but 1 is running"), std::string::npos);
  }
}

TEST_F(PipelineTraining, ALossThatIsNoNumberEndsTraining) {
  Job job = job_;
  job.parallel = even_parallel_config(job.shape, 1, 1, batch_, batch_);
  job.optimizer.learning_rate = 1e30;
  job.optimizer.warmup = 0;
  Timeline timeline(Clock::steady().now());
  PipelineTrainer trainer(job, nullptr, timeline);
  EXPECT_THROW(
      {
        for (int step = 0; step < 5; ++step) trainer.step(step, false);
      },
      Error);
}

}  // namespace
}  // namespace tombolo::trainer
