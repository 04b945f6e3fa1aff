#include "tools/demo/train_log.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tools/cli/testing.h"

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

TEST(TrainLog, ReadsWhatPassedBetweenNicsInTheOrderOfHosts) {
  const auto links = parse_traffic(
      R"({"steps": 4, "links": [
        {"from_host": "b0", "from_nic": "eth0", "to_host": "a0", "to_nic": "eth0", "kind": "tcp", "bytes": 8},
        {"from_host": "a0", "from_nic": "fast0", "to_host": "a1", "to_nic": "fast0", "kind": "infiniband", "bytes": 10},
        {"from_host": "a0", "from_nic": "eth0", "to_host": "a1", "to_nic": "eth0", "kind": "tcp", "bytes": 0}]})",
      "x.traffic");
  ASSERT_EQ(links.size(), 3U);
  EXPECT_EQ(links[0].from_nic, "eth0");
  EXPECT_EQ(links[1].from_nic, "fast0");
  EXPECT_EQ(links[1].kind, topology::NicKind::kInfiniBand);
  EXPECT_EQ(links[1].bytes, 10);
  EXPECT_EQ(links[1].bytes_per_step, 2.5);
  EXPECT_EQ(links[2].from_host, "b0");
}

TEST(TrainLog, NamesWhatIsWrongOfTheTraffic) {
  const auto message = [](const std::string& text) {
    return error_of([&] { parse_traffic(text, "x.traffic"); });
  };
  EXPECT_NE(message(R"({"steps": 0, "links": []})").find("x.traffic:1: steps"), std::string::npos);
  const std::string link = R"({"from_host": "a", "from_nic": "e", "to_host": "b", "to_nic": "e", "kind": )";
  EXPECT_NE(
      message(R"({"steps": 1, "links": [)" + link + R"("atm", "bytes": 1}]})").find("not a kind of NIC"),
      std::string::npos);
  EXPECT_NE(message(R"({"steps": 1, "links": [)" + link + R"("tcp", "bytes": -1}]})").find("links[0].bytes"),
            std::string::npos);
  EXPECT_NE(message("{").find("x.traffic"), std::string::npos);
}

TEST(TrainLog, NamesAFileThatCannotBeRead) {
  EXPECT_NE(error_of([] { read_file("/no/such/train.log"); }, Cause::kSystem).find("/no/such/train.log"),
            std::string::npos);
}

TEST(TrainLog, KeepsWhatATerminalMayShow) {
  EXPECT_EQ(only_ascii("And\nthe \x1b[31m\xff"), "And\nthe ?[31m?");
}

}  // namespace
}  // namespace tombolo::tools::demo
