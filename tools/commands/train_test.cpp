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

TEST_F(TrainCommand, RefusesNumbersThatMakeNoSense) {
  for (const auto& [option, value] :
       std::vector<std::pair<std::string, std::string>>{{"--shuffle", "-1"},
                                                        {"--seed", "-1"},
                                                        {"--gpu", "-1"},
                                                        {"--steps", "-1"},
                                                        {"--threads", "0"},
                                                        {"--bucket", "0"},
                                                        {"--timeline-first", "-1"},
                                                        {"--timeline-steps", "-1"},
                                                        {"--timeline-steps", "0"},
                                                        {"--sample", "-5"},
                                                        {"--sample-every", "-1"},
                                                        {"--validate-every", "-1"},
                                                        {"--validation-rows", "0"},
                                                        {"--layers", "0"},
                                                        {"--width", "0"},
                                                        {"--heads", "0"},
                                                        {"--context", "0"},
                                                        {"--vocabulary", "1"},
                                                        {"--batch", "0"},
                                                        {"--pipeline", "0"},
                                                        {"--replicas", "0"},
                                                        {"--micro-batch", "-1"},
                                                        {"--lr", "-1"},
                                                        {"--lr", "nan"},
                                                        {"--lr", "inf"},
                                                        {"--lr-min", "-1"},
                                                        {"--warmup", "-1"},
                                                        {"--weight-decay", "-0.5"},
                                                        {"--weight-decay", "inf"},
                                                        {"--clip", "-1"}})
    refuses(command({option, value}), {option, value});
  for (const auto& [option, value] : std::vector<std::pair<std::string, std::string>>{
           {"--temperature", "-1"}, {"--temperature", "nan"}, {"--temperature", "inf"}})
    refuses(command({"--sample", "5", option, value}), {option, value});
  refuses(command({"--sample", "5", "--prompt", ""}), {"--prompt"});
  for (const char* option : {"--every", "--keep"})
    refuses(command({"--checkpoint", file("run"), option, "0"}), {option, "0"});
  refuses(command({"--lr", "0.1", "--lr-min", "0.2"}), {"--lr-min 0.2"});
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
