// What a run on GPUs writes about itself.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/randomized_test.h"
#include "base/temporary_folder.h"
#include "collectives/testing/test_support.h"
#include "trainer/cuda/stage/cuda_stage.h"
#include "trainer/cuda/testing/pretended_device.h"
#include "trainer/run/run_files.h"

namespace tombolo::trainer {
namespace {

using collectives::Communicator;

// On a device whose operations take 10 s each, which no host waits for: what the timeline says can only be
// the device's clock.
class DeviceRun : public testing::TestWithParam<Reduction> {};

INSTANTIATE_TEST_SUITE_P(BothReductions, DeviceRun, testing::Values(Reduction::kEngine, Reduction::kNccl));

TEST_P(DeviceRun, ItsFilesAreByTheDevicesClockAndHaveEveryStepsPasses) {
  constexpr double kOperation = 10;
  const TemporaryFolder folder;
  folder.write("text", std::string(1000, 'a'));
  Job given;
  given.data = folder.file("text");
  given.shape.context = 8;
  given.shape.padded_vocabulary = 256;
  given.shape.layers = 4;
  given.shape.heads = 1;
  given.shape.width = 8;
  given.parallel = even_parallel_config(given.shape, 2, 1, 4, 1);
  given.reduction = GetParam();
  const unsigned seed = test_seed();
  const auto nccl = std::make_shared<cuda::PretendedNccl>();
  const auto on_one_host = [](collectives::Options& options) {
    options.router.host.name = "here";
    options.identity.local_rank = options.identity.rank;
  };
  const auto body = [&](Communicator& world) {
    Job job = given;
    job.make_stage = cuda::cuda_stages([&] {
      return std::make_shared<cuda::PretendedDevice>(cuda::PretendedOptions{
          .seed = seed + static_cast<unsigned>(world.rank()), .nccl = nccl, .operation_seconds = kOperation});
    });
    Timeline timeline(Clock::steady().now());
    timeline.keep(1, 1);
    timeline.keep_steps();
    PipelineTrainer trainer(job, &world, timeline);
    constexpr int kTimedSteps = 3;
    std::vector<double> seconds;
    Rows rows(open_source({job.data, {}}), job.shape.context, {});
    for (int step = 0; step < kTimedSteps; ++step) {
      seconds.push_back(trainer.step(step, false).seconds);
      trainer.validate(rows, 1);  // whose forward passes are no part of it
    }
    trainer.finish_timeline();
    ASSERT_EQ(timeline.steps().size(), static_cast<std::size_t>(kTimedSteps));
    const auto of = [&](int step, Activity activity) {
      return timeline.steps()[static_cast<std::size_t>(step)].elapsed[static_cast<std::size_t>(activity)];
    };
    for (int step = 0; step < kTimedSteps; ++step) {
      for (const Activity activity : {Activity::kForward, Activity::kBackward}) {
        EXPECT_GT(of(step, activity), 4 * 2 * 5 * kOperation) << "four micro-batches of two layers";
        EXPECT_NEAR(of(step, activity), of(0, activity), 1e-5) << "step " << step;
      }
      EXPECT_NEAR(of(step, Activity::kUpdate), 2 * kOperation, 1e-6) << "the norm and AdamW, step " << step;
    }
    std::map<std::string, int> bars;
    for (const Json& event : timeline.events(world.rank(), "rank"))
      if (event["ph"] == "X" && event["cat"] == "compute") ++bars[event["name"]];
    EXPECT_EQ(
        bars,
        (std::map<std::string, int>{
            {"backward", 4}, {"clear gradients", 1}, {"forward", 4}, {"gradient norm", 1}, {"update", 1}}));
    const std::vector<collectives::LinkTraffic> none;
    const Json measured = measured_file({&world, trainer, timeline, none, none, seconds});
    if (world.rank() == 0) {
      for (const Json& rank : measured.at("ranks")) {
        EXPECT_EQ(rank.at("clock"), "device");
        EXPECT_FALSE(rank.contains("processor")) << "a device's passes take no processor";
        EXPECT_GT(rank.at("forward_seconds").get<double>(), 40 * kOperation);
      }
    }
    const Json trace = timeline_file({&world, trainer, timeline, none, none, seconds});
    if (world.rank() == 0) {
      EXPECT_EQ(trace.at("otherData").at("ranks").at(1).at("compute_clock"), "device");
      EXPECT_NE(trace.dump().find("compute (the device's clock)"), std::string::npos);
    }
    world.barrier();
  };
  collectives::test::expect_fine(collectives::test::run_ranks("AA", body, on_one_host));
}

}  // namespace
}  // namespace tombolo::trainer
