// Runs programs with one rank in this process, or with several by -g: tests how wrong results are reported,
// and what is measured.
#include "bench/perf/perf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/temporary_folder.h"
#include "bench/perf/exit_codes.h"

namespace tombolo::bench {
namespace {

struct Outcome {
  int exit_code;
  std::string out, err;
};

Outcome run(const Collective& collective, std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "test_perf");
  arguments.insert(arguments.end(), {"-b", "1K", "-e", "1K", "-n", "2"});
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int code = run_perf(collective, static_cast<int>(arguments.size()), arguments.data());
  return {code, ::testing::internal::GetCapturedStdout(), ::testing::internal::GetCapturedStderr()};
}

TEST(Perf, AWrongResultEndsWithFailure) {
  Collective wrong = *find_collective("all_gather");
  EXPECT_EQ(run(wrong, {}).exit_code, kExitOk);
  wrong.origin = [](const RankContext&, std::size_t index) { return Origin{Origin::kCopy, index ^ 1, 0}; };
  const Outcome outcome = run(wrong, {});
  EXPECT_EQ(outcome.exit_code, kExitWrong) << outcome.err;
  // Out of place and in place.
  EXPECT_NE(outcome.out.find("# Out of bounds values : 2 FAILED"), std::string::npos) << outcome.out;
  // Unless results are not checked.
  EXPECT_EQ(run(wrong, {"-c", "0"}).exit_code, kExitOk);
}

TEST(Perf, ACallThatWritesWhereNothingIsDueIsFound) {
  Collective wrong = *find_collective("broadcast");
  wrong.origin = [](const RankContext&, std::size_t) { return Origin{Origin::kUntouched}; };
  EXPECT_EQ(run(wrong, {"-d", "int32"}).exit_code, kExitWrong);
}

TEST(Perf, ACallThatDoesNothingIsFound) {
  Collective wrong = *find_collective("alltoall");
  wrong.run = [](const Call&) {};
  EXPECT_EQ(run(wrong, {}).exit_code, kExitWrong);
}

TEST(Perf, AThreadMayBeARank) {
  for (const Collective& collective : all_collectives()) {
    const Outcome outcome = run(collective, {"-t", "2", "-g", "2", "-d", "int32"});
    EXPECT_EQ(outcome.exit_code, kExitOk) << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("#  Rank  3 Group  0 Pid"), std::string::npos) << outcome.out;
  }
}

TEST(Perf, EightBitFloatsAreChecked) {
  for (const auto& [type, nccl_name] : {std::pair{"fp8e4m3", " f8e4m3 "}, std::pair{"f8e5m2", " f8e5m2 "}}) {
    for (const Collective& collective : all_collectives()) {
      const Outcome outcome = run(collective, {"-g", "4", "-d", type, "-o", "all", "-m", "2"});
      EXPECT_EQ(outcome.exit_code, kExitOk) << outcome.out << outcome.err;
      EXPECT_NE(outcome.out.find(nccl_name), std::string::npos) << outcome.out;
    }
    // A rank whose input is not added is noticed.
    Collective wrong = *find_collective("all_reduce");
    wrong.run = [](const Call& call) {
      if (call.rank == 1) std::memset(call.send, 0, call.count);
      call.communicator.all_reduce(call.send, call.receive, call.count, call.type, call.op);
    };
    EXPECT_EQ(run(wrong, {"-g", "4", "-d", type}).exit_code, kExitWrong) << type;
  }
}

TEST(Perf, OnlySendsAndReceivesHaveNoAlgorithmOfTheEngine) {
  const TemporaryFolder folder;
  for (const Collective& collective : all_collectives()) {
    const std::string name = std::string(collective.name) + ".json", path = folder.file(name);
    const Outcome outcome = run(collective, {"-g", "2", "-J", path.c_str()});
    ASSERT_EQ(outcome.exit_code, kExitOk) << outcome.out << outcome.err;
    const std::string algorithm = Json::parse(folder.read(name)).at("results").at(0).at("algorithm");
    EXPECT_EQ(algorithm == "point-to-point", collective.name == "sendrecv" || collective.name == "hypercube")
        << collective.name << ": " << algorithm;
    EXPECT_NE(algorithm, "none") << collective.name;
  }
}

TEST(Perf, ExplainsWhichWayEachSizeTook) {
  const TemporaryFolder folder;
  for (const Collective& collective : all_collectives()) {
    const std::string name = std::string(collective.name) + ".json", path = folder.file(name);
    const Outcome outcome = run(collective, {"-g", "2", "--explain", "-J", path.c_str()});
    ASSERT_EQ(outcome.exit_code, kExitOk) << outcome.out << outcome.err;
    const Json report = Json::parse(folder.read(name));
    const std::string text = report.at("explanation").at("network").at("text");
    EXPECT_TRUE(text.starts_with("2 ranks on host ")) << text;
    EXPECT_NE(outcome.out.find("# The engine knows of the network: " + text), std::string::npos)
        << outcome.out;
    const Json& row = report.at("results").at(0);
    const Json& call = row.at("explanation");
    if (collective.point_to_point) {
      EXPECT_TRUE(call.is_null()) << call;
      EXPECT_NE(outcome.out.find("of which none is to be chosen"), std::string::npos) << outcome.out;
      continue;
    }
    EXPECT_EQ(call.at("algorithm"), row.at("algorithm")) << collective.name;
    EXPECT_EQ(call.at("bytes"), row.at("size")) << collective.name;
    EXPECT_NE(outcome.out.find(call.at("why").get<std::string>()), std::string::npos) << outcome.out;
  }
  EXPECT_EQ(run(*find_collective("broadcast"), {}).out.find("The engine knows"), std::string::npos);
}

TEST(Perf, AFailureOfTheEngineHasItsOwnExitCode) {
  Collective wrong = *find_collective("all_reduce");
  wrong.run = [](const Call& call) {
    call.communicator.all_reduce(nullptr, call.receive, call.count, call.type, call.op);
  };
  const Outcome outcome = run(wrong, {});
  EXPECT_EQ(outcome.exit_code, kExitEngine);
  EXPECT_NE(outcome.err.find("all_reduce_perf: "), std::string::npos) << outcome.err;
}

TEST(Perf, ACallThatTakesTooLongIsGivenUp) {
  Collective stuck = *find_collective("all_reduce");
  // Rank 1 of 2 never comes.
  stuck.run = [](const Call& call) {
    if (call.rank == 0) call.communicator.receive(call.receive, 1, tomboloInt8, 1);
    if (call.rank == 1) call.communicator.receive(call.receive, 1, tomboloInt8, 0);
  };
  const Outcome outcome = run(stuck, {"-g", "2", "-T", "1"});
  EXPECT_EQ(outcome.exit_code, kExitTimeout) << outcome.err;
  EXPECT_NE(outcome.err.find("took longer than the 1 s of -T"), std::string::npos) << outcome.err;
}

TEST(Perf, LessBandwidthThanDemandedIsAFailure) {
  ASSERT_EQ(::setenv("NCCL_TESTS_MIN_BW", "1e9", 1), 0);
  const Outcome slow = run(*find_collective("broadcast"), {});
  ASSERT_EQ(::setenv("NCCL_TESTS_MIN_BW", "0", 1), 0);
  const Outcome fast = run(*find_collective("broadcast"), {});
  ASSERT_EQ(::unsetenv("NCCL_TESTS_MIN_BW"), 0);
  EXPECT_EQ(slow.exit_code, kExitWrong);
  EXPECT_TRUE(slow.out.find("FAILED") != std::string::npos) << slow.out;
  EXPECT_EQ(fast.exit_code, kExitOk);
}

}  // namespace
}  // namespace tombolo::bench
