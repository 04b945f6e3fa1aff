// What tombolo train refuses. tests/process/train_test.cpp trains, and gives it files that cannot be used.
#include <gtest/gtest.h>

#include "planner/testing/testing.h"
#include "tools/cli/testing_command.h"

namespace tombolo::tools {
namespace {

class TrainCommand : public CommandTest {
 protected:
  TrainCommand() { folder_.write("text", std::string(4096, 'x')); }
  std::vector<std::string> command(std::vector<std::string> more) const {
    more.insert(more.begin(), {"train", "--data", file("text")});
    return more;
  }
};

TEST_F(TrainCommand, RefusesOptionsThatCannotBe) {
  refuses({"train"}, {"--data"});
  refuses(command({"--dtype", "fp8"}), {"--dtype", "fp8"});
  refuses(command({"--bucket", "lots"}), {"--bucket", "lots"});
  refuses(command({"--steps", "few"}), {"--steps", "few"});
  refuses(command({"--micro-batches", "2"}), {"--micro-batches"});
  refuses(command({"--reduce", "mpi"}), {"--reduce", "mpi"});
  refuses(command({"--reduce", "nccl"}), {"--reduce nccl", "on the CPU", "--device cuda"});
}

TEST_F(TrainCommand, APlanForGpusIsOneAlsoForWhatSumsGradients) {
  planner::Plan plan = planner::testing::simple_plan(planner::testing::small_model(2), {"a0"}, 1, 1, 4, 2);
  plan.job.device = planner::TrainerDevice::kCuda;
  plan.save(file("plan.json"));
  // A number that no machine has: what is missing on one without a GPU is the library.
  EXPECT_NE(run(command({"--plan", file("plan.json"), "--reduce", "nccl", "--gpu", "9999"})), kExitOk);
  EXPECT_MENTIONS(err_, "GPU 9999");
  refuses(command({"--plan", file("plan.json"), "--reduce", "nccl", "--device", "cpu"}),
          {"--reduce nccl", "on the CPU"});
}

}  // namespace
}  // namespace tombolo::tools
