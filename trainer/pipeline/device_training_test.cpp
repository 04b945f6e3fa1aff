// Whole pipelines, over the communicator, on pretended GPUs.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>

#include "base/error.h"
#include "base/randomized_test.h"
#include "base/temporary_folder.h"
#include "collectives/testing/test_support.h"
#include "trainer/cuda/stage/cuda_stage.h"
#include "trainer/cuda/testing/pretended_device.h"
#include "trainer/pipeline/pipeline_trainer.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer {
namespace {

using collectives::Communicator;

/// With `nccl` the GPUs sum with each other.
StageFactory pretended_gpus(unsigned seed, std::shared_ptr<cuda::PretendedNccl> nccl = nullptr) {
  return cuda::cuda_stages([seed, nccl] {
    return std::make_shared<cuda::PretendedDevice>(cuda::PretendedOptions{.seed = seed, .nccl = nccl});
  });
}

class DeviceTraining : public testing::Test {
 protected:
  DeviceTraining() {
    job_.shape.context = 12;
    job_.shape.padded_vocabulary = 256;
    job_.shape.layers = 4;
    job_.shape.heads = 2;
    job_.shape.width = 16;
    job_.optimizer.learning_rate = 3e-3;
    job_.optimizer.weight_decay = 0.1;
    job_.optimizer.clip = 0.5;
    job_.bucket_bytes = 1;  // as many reductions as there are
    job_.data = folder_.file("text");
    std::mt19937 random(test_seed(1));
    std::string text;
    while (text.size() < 2000) text += std::array{"ab ", "stone ", "water\n", "the "}[random() % 4];
    folder_.write("text", text);
    job_.parallel = even_parallel_config(job_.shape, 2, 2, 8, 1);
  }

  struct Run {
    std::vector<double> losses;
    std::vector<float> parameters;
  };

  /// Rank 0's results; `of_rank` says what each rank computes on.
  Run run(const std::function<StageFactory(int)>& of_rank, Reduction reduction = Reduction::kEngine) {
    Run result;
    const auto body = [&](Communicator& world) {
      Job job = job_;
      job.make_stage = of_rank(world.rank());
      job.reduction = reduction;
      Timeline timeline(Clock::steady().now());
      PipelineTrainer trainer(job, &world, timeline);
      std::vector<double> losses;
      for (int step = 0; step < kSteps; ++step) losses.push_back(trainer.step(step, false).loss);
      auto parameters = trainer.gather();
      world.barrier();
      if (world.rank() == 0) result = {losses, std::move(parameters)};
    };
    const auto on_one_host = [](collectives::Options& options) {
      options.router.host.name = "here";
      options.identity.local_rank = options.identity.rank;
    };
    collectives::test::expect_fine(collectives::test::run_ranks("AAAA", body, on_one_host));
    return result;
  }

  /// On GPUs, whose order of work follows from the seed.
  Run run_on_gpus(unsigned seed, Reduction reduction) {
    const auto nccl = std::make_shared<cuda::PretendedNccl>();
    const Run result =
        run([&](int rank) { return pretended_gpus(seed + static_cast<unsigned>(rank), nccl); }, reduction);
    EXPECT_EQ(nccl->groups() > 0, reduction == Reduction::kNccl);
    return result;
  }

  void expect_same(const Run& found, const Run& expected) {
    ASSERT_EQ(found.losses.size(), expected.losses.size());
    for (std::size_t step = 0; step < expected.losses.size(); ++step)
      EXPECT_NEAR(found.losses[step], expected.losses[step], step == 0 ? 1e-5 : 1e-4) << "step " << step;
    ASSERT_EQ(found.parameters.size(), expected.parameters.size());
    for (std::size_t at = 0; at < expected.parameters.size(); ++at)
      ASSERT_NEAR(found.parameters[at], expected.parameters[at], 2e-3) << at;
  }

  static constexpr int kSteps = 8;
  Job job_;
  TemporaryFolder folder_;
};

TEST_F(DeviceTraining, FourRanksOnGpusTrainAsFourOnCpus) {
  const Run expected = run([](int) { return cpu_stages(); });
  EXPECT_LT(expected.losses.back(), expected.losses.front() - 0.1) << "too little was learnt to prove much";
  const unsigned seed = test_seed();
  expect_same(run([&](int rank) { return pretended_gpus(seed + static_cast<unsigned>(rank)); }), expected);
}

TEST_F(DeviceTraining, CpusAndGpusTrainTogetherInFp32) {
  const Run expected = run([](int) { return cpu_stages(); });
  expect_same(run([](int rank) { return rank % 2 == 0 ? cpu_stages() : pretended_gpus(1); }), expected);
}

TEST_F(DeviceTraining, Bfloat16OnGpusLearnsAsFp32Does) {
  const Run expected = run([](int) { return cpu_stages(); });
  job_.precision = job_.moments = compute::Precision::kBfloat16;
  job_.recompute = planner::Recompute::kFull;
  const Run found = run([](int) { return pretended_gpus(1); });
  for (std::size_t step = 0; step < expected.losses.size(); ++step)
    EXPECT_NEAR(found.losses[step], expected.losses[step], 0.02 * expected.losses[step]) << "step " << step;
}

// The sum of two numbers has one value, in whatever order they come.
TEST_F(DeviceTraining, SumsOfTwoReplicasByTheGpusAreTheEnginesToTheBit) {
  const unsigned seed = test_seed();
  const Run expected = run_on_gpus(seed, Reduction::kEngine);
  for (unsigned round = 0; round < static_cast<unsigned>(test_rounds(3)); ++round) {
    const Run found = run_on_gpus(seed + 100 * round, Reduction::kNccl);
    EXPECT_EQ(found.losses, expected.losses) << "round " << round;
    EXPECT_EQ(found.parameters, expected.parameters) << "round " << round;
  }
}

// The first and the last stage sum the embedding that they share, and nothing else is summed.
TEST_F(DeviceTraining, OneReplicaOnGpusThatSumIsTheEnginesToTheBit) {
  job_.parallel = even_parallel_config(job_.shape, 4, 1, 8, 1);
  const unsigned seed = test_seed();
  const Run expected = run_on_gpus(seed, Reduction::kEngine);
  const Run found = run_on_gpus(seed, Reduction::kNccl);
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.parameters, expected.parameters);
}

TEST_F(DeviceTraining, SumsOfFourReplicasByTheGpusAreTheEnginesButForRounding) {
  for (const std::size_t bucket_bytes : {1U, 1U << 20U}) {
    job_.bucket_bytes = bucket_bytes;
    job_.parallel = even_parallel_config(job_.shape, 1, 4, 8, 1);
    const unsigned seed = test_seed();
    expect_same(run_on_gpus(seed, Reduction::kNccl), run_on_gpus(seed, Reduction::kEngine));
  }
}

// No host memory is taken for gradients that are summed by GPUs, or by nobody.
TEST_F(DeviceTraining, AGradientThatIsNotFiniteIsNamedWhereNoGradientLeavesTheGpu) {
  job_.parallel = even_parallel_config(job_.shape, 1, 1, 8, 1);
  job_.make_stage = pretended_gpus(test_seed());
  Timeline timeline(Clock::steady().now());
  PipelineTrainer trainer(job_, nullptr, timeline);
  const Slice& weight = trainer.compute().layout().find(Tensor::kMlpWeight, 2);
  // Each is finite, but not the sums of products. (Of one sign they would cancel out: a norm's output has the
  // mean 0.)
  std::vector<float> values(weight.elements);
  for (std::size_t at = 0; at < values.size(); ++at) values[at] = at % 2 == 0 ? 3e38F : -3e38F;
  trainer.compute().write_state(StageState::kParameters, weight.offset, values);
  test::expect_refusal([&] { trainer.step(0, false); },
                       {"step 0: loss NaN with gradient norm NaN: training diverged; it began on rank 0",
                        "gradient of ", "values are not finite"});
}

// Rank 0 makes one step less than the others, and leaves while they wait for it.
TEST_F(DeviceTraining, ARankThatLeavesEndsTheOthersWithAnErrorThatNamesRankAndSum) {
  const auto nccl = std::make_shared<cuda::PretendedNccl>();
  const unsigned seed = test_seed();
  std::atomic<int> failed{0};
  job_.parallel = even_parallel_config(job_.shape, 1, 2, 8, 1);
  job_.reduction = Reduction::kNccl;
  job_.reduction_deadline = std::chrono::seconds(10);
  const auto body = [&](Communicator& world) {
    Job job = job_;
    job.make_stage = pretended_gpus(seed + static_cast<unsigned>(world.rank()), nccl);
    Timeline timeline(Clock::steady().now());
    PipelineTrainer trainer(job, &world, timeline);
    trainer.step(0, false);
    if (world.rank() == 1) {
      try {
        trainer.step(1, false);
      } catch (const Error& error) {
        ++failed;
        const std::string text = error.what();
        EXPECT_TRUE(error.cause() == Cause::kTimeout || error.cause() == Cause::kRemote ||
                    error.cause() == Cause::kAborted)
            << text;
        EXPECT_NE(text.find("rank"), std::string::npos) << text;
      }
    }
  };
  const auto on_one_host = [](collectives::Options& options) {
    options.router.host.name = "here";
    options.identity.local_rank = options.identity.rank;
  };
  collectives::test::run_ranks("AA", body, on_one_host);
  EXPECT_EQ(failed, 1);
}

/// A stage of the CPU that says its boundaries have another size.
class OtherBoundaries final : public StageCompute {
 public:
  explicit OtherBoundaries(const StageOptions& options) : stage_(make_cpu_stage(options)) {}
  const StageParameters& layout() const noexcept override { return stage_->layout(); }
  StageMemory memory() const noexcept override { return stage_->memory(); }
  std::string describe() const override { return stage_->describe(); }
  void read_state(StageState state, std::size_t offset, std::span<float> to) const override {
    stage_->read_state(state, offset, to);
  }
  void write_state(StageState state, std::size_t offset, std::span<const float> from) override {
    stage_->write_state(state, offset, from);
  }
  void read_gradients(std::size_t offset, std::span<float> to) const override {
    stage_->read_gradients(offset, to);
  }
  std::span<float> gradients_to_host(const Bucket& bucket) override {
    return stage_->gradients_to_host(bucket);
  }
  void gradients_from_host(const Bucket& bucket) override { stage_->gradients_from_host(bucket); }
  std::span<std::byte> input(int micro_batch) noexcept override {
    const auto whole = stage_->input(micro_batch);
    return whole.first(whole.size() / 2);
  }
  std::span<const std::byte> output(int micro_batch) const noexcept override {
    const auto whole = stage_->output(micro_batch);
    return whole.first(whole.size() / 2);
  }
  std::span<std::byte> boundary_gradient(int micro_batch) noexcept override {
    return stage_->boundary_gradient(micro_batch);
  }
  void forward(int micro_batch, std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets,
               const Progress& progress) override {
    stage_->forward(micro_batch, tokens, targets, progress);
  }
  double take_loss_sum() override { return stage_->take_loss_sum(); }
  void backward(int micro_batch, std::span<const std::int32_t> tokens, const Progress& progress,
                const GradientsFinal& gradients_final) override {
    stage_->backward(micro_batch, tokens, progress, gradients_final);
  }
  std::span<const float> scores(int micro_batch, int row, int position) override {
    return stage_->scores(micro_batch, row, position);
  }
  void clear_gradients() override { stage_->clear_gradients(); }
  double gradient_square_sum() const override { return stage_->gradient_square_sum(); }
  void update(const AdamWStep& step) override { stage_->update(step); }

 private:
  std::unique_ptr<CpuStage> stage_;
};

TEST_F(DeviceTraining, StagesThatPassBoundariesInTwoFormatsAreRefused) {
  std::atomic<int> refused{0};
  const auto on_one_host = [](collectives::Options& options) {
    options.router.host.name = "here";
    options.identity.local_rank = options.identity.rank;
  };
  const auto body = [&](Communicator& world) {
    Job job = job_;
    // Stage 0 is on ranks 0 and 1.
    if (world.rank() < 2)
      job.make_stage = [](const StageOptions& options) { return std::make_unique<OtherBoundaries>(options); };
    Timeline timeline(Clock::steady().now());
    try {
      PipelineTrainer trainer(job, &world, timeline);
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage) << error.what();
      EXPECT_NE(std::string(error.what()).find("of 384 and of 768 bytes"), std::string::npos) << error.what();
      ++refused;
    }
    world.barrier();
  };
  collectives::test::expect_fine(collectives::test::run_ranks("AAAA", body, on_one_host));
  EXPECT_EQ(refused, 4);
}

}  // namespace
}  // namespace tombolo::trainer
