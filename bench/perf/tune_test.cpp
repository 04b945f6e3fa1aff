#include "bench/perf/tune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "base/temporary_folder.h"
#include "bench/perf/exit_codes.h"
#include "bench/perf/perf.h"

namespace tombolo::bench {
namespace {

TunedSize tuned_size(std::size_t bytes, std::vector<TimedWay> ways) {
  TunedSize made{bytes, ways.front().way, std::move(ways)};
  std::ranges::stable_sort(made.ways, {}, &TimedWay::seconds);
  return made;
}

TEST(Tune, KeepsTheEnginesOwnWayUnlessAnotherIsClearlyFaster) {
  EXPECT_EQ(tuned_size(8, {{{"ring"}, 1.04}, {{"doubling"}, 1.00}}).chosen(), Way{"ring"});
  EXPECT_EQ(tuned_size(8, {{{"ring"}, 1.06}, {{"doubling"}, 1.00}}).chosen(), Way{"doubling"});
  EXPECT_EQ(tuned_size(8, {{{"ring"}, 1.00}, {{"ring", 4096}, 0.5}, {{"host"}, 0.9}}).chosen(),
            (Way{"ring", 4096}));
}

TEST(Tune, JoinsNeighboursOfOneWayAndPutsBordersBetweenTheOthers) {
  const Json rows =
      rows_of("all_reduce", {tuned_size(100, {{{"doubling"}, 1}}), tuned_size(400, {{{"doubling"}, 2}}),
                             tuned_size(1600, {{{"ring"}, 1}}), tuned_size(6400, {{{"ring", 8}, 1}})});
  const Json expected = Json::parse(R"([
    {"collective": "all_reduce", "algorithm": "doubling", "from_bytes": 100, "to_bytes": 800,
     "measured": [{"algorithm": "doubling", "bytes": 100, "seconds": 1.0},
                  {"algorithm": "doubling", "bytes": 400, "seconds": 2.0}]},
    {"collective": "all_reduce", "algorithm": "ring", "from_bytes": 801, "to_bytes": 3200,
     "measured": [{"algorithm": "ring", "bytes": 1600, "seconds": 1.0}]},
    {"collective": "all_reduce", "algorithm": "ring", "segment_bytes": 8, "from_bytes": 3201, "to_bytes": 6400,
     "measured": [{"algorithm": "ring", "segment_bytes": 8, "bytes": 6400, "seconds": 1.0}]}])");
  EXPECT_EQ(rows, expected) << rows;
  const Json close =
      rows_of("all_reduce", {tuned_size(0, {{{"doubling"}, 1}}), tuned_size(1, {{{"ring"}, 1}}),
                             tuned_size(2, {{{"doubling"}, 1}})});
  std::size_t next = 0;
  for (const Json& row : close) {
    EXPECT_EQ(row.at("from_bytes"), next);
    EXPECT_EQ(row.at("to_bytes"), next++);
  }
  EXPECT_EQ(next, 3U);
}

TEST(Tune, ReplacesTheRowsOfOneCollective) {
  const auto row = [](std::string_view collective, int from) {
    return Json{{"collective", collective}, {"from_bytes", from}};
  };
  const Json shape{{"clusters", {{2}}}};
  Json table = table_with({}, shape, "broadcast", Json::array({row("broadcast", 1)}));
  table = table_with(table, shape, "all_reduce", Json::array({row("all_reduce", 2)}));
  table = table_with(table, shape, "all_reduce", Json::array({row("all_reduce", 3), row("all_reduce", 4)}));
  EXPECT_EQ(table.at("rows"), Json::array({row("broadcast", 1), row("all_reduce", 3), row("all_reduce", 4)}));
  EXPECT_EQ(table.at("shape"), shape);
}

struct TuneOutcome {
  int exit_code;
  std::string out, err;
};

TuneOutcome run_tuning(std::string_view collective, std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "test_perf");
  arguments.insert(arguments.end(), {"-n", "2"});
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int code =
      run_perf(*find_collective(collective), static_cast<int>(arguments.size()), arguments.data());
  return {code, ::testing::internal::GetCapturedStdout(), ::testing::internal::GetCapturedStderr()};
}

TEST(Tune, WritesATableOfEveryCollectiveIntoOneFileThatTheEngineTakes) {
  const TemporaryFolder folder;
  const std::string path = folder.file("tuning.json");
  std::size_t tuned_so_far = 0;
  for (const Collective& one : all_collectives()) {
    const TuneOutcome outcome = run_tuning(
        one.name, {"-g", "4", "-b", "64", "-e", "64K", "-f", "32", "--explain", "--tune", path.c_str()});
    if (one.point_to_point) {
      EXPECT_EQ(outcome.exit_code, kExitInvalidUsage);
      EXPECT_NE(outcome.err.find("--tune"), std::string::npos) << outcome.err;
      continue;
    }
    ASSERT_EQ(outcome.exit_code, kExitOk) << outcome.out << outcome.err;
    ++tuned_so_far;
    const Json table = Json::parse(folder.read("tuning.json"));
    EXPECT_EQ(table.at("shape").at("clusters"), Json::array({Json::array({4})}));
    std::set<std::string> tuned;
    for (const Json& row : table.at("rows")) tuned.insert(row.at("collective"));
    EXPECT_EQ(tuned.size(), tuned_so_far) << one.name;
    EXPECT_NE(outcome.out.find(path + " has "), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("the tuning table has "), std::string::npos) << outcome.out;
  }
}

TEST(Tune, MeasuresEachWayOfASize) {
  const TemporaryFolder folder;
  const std::string path = folder.file("tuning.json");
  const TuneOutcome outcome =
      run_tuning("all_reduce", {"-g", "2", "-b", "1M", "-e", "1M", "--tune", path.c_str()});
  ASSERT_EQ(outcome.exit_code, kExitOk) << outcome.out << outcome.err;
  std::set<std::string> ways;
  const Json table = Json::parse(folder.read("tuning.json"));
  for (const Json& row : table.at("rows")) {
    for (const Json& one : row.at("measured")) {
      EXPECT_EQ(one.at("bytes"), 1 << 20);
      EXPECT_GT(one.at("seconds"), 0);
      ways.insert(
          fmt::format("{} {}", one.at("algorithm").get<std::string>(), one.value("segment_bytes", 0)));
    }
  }
  EXPECT_EQ(ways, (std::set<std::string>{"host 0", "doubling 0", "ring 0", "ring 131072", "two-level 0",
                                         "two-level 131072"}))
      << outcome.out;
}

TEST(Tune, KeepsAFileThatIsOfAnotherJobOrNoTable) {
  const TemporaryFolder folder;
  const std::string path = folder.file("tuning.json");
  for (const auto& [text, words] :
       {std::pair("mine", "malformed"),
        {"", "malformed"},
        {R"({"tombolo_tuning": 1, "shape": {"clusters": [[3]], "uniform_links": false}, "rows": []})",
         "it is for 3 ranks, and this job has 2"}}) {
    std::ofstream(path) << text;
    const TuneOutcome outcome =
        run_tuning("broadcast", {"-g", "2", "-b", "64", "-e", "64", "--tune", path.c_str()});
    EXPECT_EQ(outcome.exit_code, kExitInvalidUsage) << outcome.err;
    EXPECT_NE(outcome.err.find(path), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
    EXPECT_EQ(folder.read("tuning.json"), text);
  }
}

TEST(Tune, SaysThatANamedAlgorithmIsInTheWay) {
  const TemporaryFolder folder;
  const std::string path = folder.file("tuning.json");
  ASSERT_EQ(::setenv("TOMBOLO_ALGORITHM", "ring", 1), 0);
  const TuneOutcome outcome =
      run_tuning("all_reduce", {"-g", "2", "-b", "64", "-e", "64", "--tune", path.c_str()});
  ASSERT_EQ(::unsetenv("TOMBOLO_ALGORITHM"), 0);
  EXPECT_EQ(outcome.exit_code, kExitInvalidUsage);
  EXPECT_NE(outcome.err.find("unset TOMBOLO_ALGORITHM"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace tombolo::bench
