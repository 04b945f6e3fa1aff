#include "tools/demo/train_log.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tombolo::tools::demo {
namespace {

TEST(TrainLog, ReadsLossAndTimeOfEveryStep) {
  auto log = parse_train_log(
      "{\"step\":0,\"loss\":5.5,\"step_seconds\":0.5}\n{\"step\":1,\"loss\":5.25,\"step_seconds\":0.25}\n",
      "x.log");
  EXPECT_EQ(log.loss, (std::vector<double>{5.5, 5.25}));
  EXPECT_EQ(log.step_seconds, (std::vector<double>{0.5, 0.25}));
}

TEST(TrainLog, NamesTheLineOfAStepThatIsMissing) {
  try {
    parse_train_log(
        "{\"step\":0,\"loss\":5,\"step_seconds\":1}\n{\"step\":2,\"loss\":5,\"step_seconds\":1}\n", "x.log");
    FAIL() << "the gap was not noticed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("x.log, line 2"), std::string::npos) << error.what();
  }
}

TEST(TrainLog, TurnsATraceIntoBarsFromTheFirstOnesBeginAndLeavesOutWaiting) {
  auto spans = parse_timeline(
      R"({"traceEvents": [
        {"name": "process_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "rank 0"}},
        {"name": "backward", "cat": "compute", "ph": "X", "ts": 3000, "dur": 2000, "pid": 1, "tid": 0,
         "args": {"step": 9, "micro_batch": 3}},
        {"name": "gradient norm", "cat": "compute", "ph": "X", "ts": 6000, "dur": 20, "pid": 1, "tid": 0, "args": {}},
        {"name": "wait for norm", "cat": "wait", "ph": "X", "ts": 500, "dur": 10, "pid": 1, "tid": 0, "args": {}},
        {"name": "reduce gradients", "cat": "reduce", "ph": "X", "ts": 1000, "dur": 500, "pid": 0, "tid": 1,
         "args": {"step": 9}}]})",
      "x.json");
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(spans[1].name, "optimizer");
  EXPECT_EQ(spans[0].name, "backward");
  EXPECT_EQ(spans[0].micro_batch, 3);
  EXPECT_NEAR(spans[0].begin_seconds, 0.002, 1e-12);
  EXPECT_NEAR(spans[0].end_seconds, 0.004, 1e-12);
  EXPECT_EQ(spans[2].name, "all-reduce");
  EXPECT_EQ(spans[2].begin_seconds, 0);
}

TEST(TrainLog, KeepsWhatATerminalMayShow) {
  EXPECT_EQ(only_ascii("And\nthe \x1b[31m\xff"), "And\nthe ?[31m?");
}

}  // namespace
}  // namespace tombolo::tools::demo
