#include "planner/simulate/megatron_log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/temporary_folder.h"

namespace tombolo::planner {
namespace {

/// Lines as Megatron-LM prints them, with made-up figures.
std::string line_of(int iteration, double milliseconds, int batch, const std::string& tflops = "301.5") {
  return fmt::format(
      " [2026-02-03 04:05:06.7] iteration {:8}/ 100 | consumed samples: {:12} | elapsed time per iteration "
      "(ms): "
      "{:.1f} | throughput per GPU (TFLOP/s/GPU): {} | learning rate: 1.000000E-04 | global batch size: {:5} "
      "| lm "
      "loss: 1.041234E+01 | loss scale: 1.0 | grad norm: 2.034 | number of skipped iterations:   0 |\n",
      iteration, iteration * batch, milliseconds, tflops, batch);
}

MeasuredRun read(const std::string& text) {
  std::istringstream log(text);
  return read_megatron_log(log, "train.log");
}

std::string problem(const std::string& text) {
  try {
    (void)read(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    return error.what();
  }
  return "nothing thrown";
}

TEST(MegatronLog, GivesTheStepsAfterTheWarmUp) {
  std::string text = "> building GPT model ...\n";
  for (int i = 1; i <= 10; ++i) text += "[default7]:" + line_of(i, i == 1 ? 30'000 : 4000 + i, 512);
  const MeasuredRun run = read(text + "[after training is done]\n");
  EXPECT_EQ(run.step_seconds.size(), 10U);
  EXPECT_EQ(run.warm_up, 2);
  EXPECT_NEAR(run.median_step(), 4.0065, 1e-9);
  EXPECT_EQ(run.global_batch, 512);
  EXPECT_NEAR(run.flops_per_second, 301.5e12, 1);
  EXPECT_TRUE(run.ranks.empty());
}

TEST(MegatronLog, OfAGrowingBatchTheLastCounts) {
  const MeasuredRun run = read(line_of(1, 900, 64) + line_of(2, 1800, 128) + line_of(3, 1700, 128));
  EXPECT_EQ(run.step_seconds, (std::vector{1.8, 1.7}));
  EXPECT_EQ(run.global_batch, 128);
}

TEST(MegatronLog, ReadsLinesWithoutThroughputAndBatch) {
  const MeasuredRun run =
      read("iteration 5/ 9 | elapsed time per iteration (ms): 250.5 | lm loss: 2.0E+00 |\n");
  EXPECT_EQ(run.step_seconds, std::vector{0.2505});
  EXPECT_EQ(run.global_batch, 0);
  EXPECT_EQ(run.flops_per_second, 0);
}

TEST(MegatronLog, NamesTheLineThatIsWrong) {
  EXPECT_NE(problem("hello\n").find("train.log: neither JSON"), std::string::npos);
  const std::string wrong = problem(line_of(1, 900, 64) + "elapsed time per iteration (ms): soon |\n");
  EXPECT_NE(wrong.find("train.log:2: \"elapsed time per iteration (ms):\" is followed by \"soon |\""),
            std::string::npos)
      << wrong;
  EXPECT_NE(problem(line_of(1, 900, 64, "nan")).find("throughput"), std::string::npos);
  EXPECT_NE(problem(line_of(1, -1, 64)).find("expected a number > 0"), std::string::npos);
  EXPECT_NE(problem("elapsed time per iteration (ms):").find("expected a number > 0"), std::string::npos);
}

TEST(MegatronLog, IsWhatLoadReadsWhereAFileIsNoJson) {
  const TemporaryFolder folder;
  const std::string path = folder.file("train.log");
  std::ofstream(path) << "\n" << line_of(1, 900, 64) << line_of(2, 800, 64);
  EXPECT_EQ(MeasuredRun::load(path).median_step(), 0.8);
  std::ofstream(path) << " {\"tombolo_measured\": 7}";
  EXPECT_THROW((void)MeasuredRun::load(path), Error);
  EXPECT_THROW((void)MeasuredRun::load(folder.file("none")), Error);
}

}  // namespace
}  // namespace tombolo::planner
