#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/temporary_folder.h"
#include "bench/perf/report.h"

namespace tombolo::bench {
namespace {

Row made_up_row() {
  Row row;
  row.bytes = 1024;
  row.count = 256;
  row.type = "float";
  row.op = "sum";
  row.root = -1;
  row.out_of_place.measurement.seconds = 2e-6;
  row.out_of_place.measurement.median = 1.5e-6;
  row.out_of_place.measurement.least = 1e-6;
  row.out_of_place.measurement.cpu_seconds = 0.5e-6;
  row.out_of_place.measurement.algorithm = "ring";
  row.out_of_place.measurement.wrong = 3;
  row.out_of_place.algorithm_bandwidth = 0.5;
  row.out_of_place.bus_bandwidth = 0.75;
  return row;
}

Device made_up_device(int rank) {
  Device device;
  device.rank = rank;
  device.pid = 100 + rank;
  device.host[0] = 'h';
  return device;
}

TEST(PerfJson, HoldsEveryFigureOfARowInMicroseconds) {
  const Json json = to_json({}, {made_up_device(0)}, {made_up_row()}, {}, 0);
  const Json& row = json.at("results").at(0);
  EXPECT_EQ(row.at("size"), 1024);
  EXPECT_EQ(row.at("count"), 256);
  EXPECT_EQ(row.at("root"), "    -1") << "a text, as in nccl-tests";
  EXPECT_EQ(row.at("algorithm"), "ring");
  EXPECT_DOUBLE_EQ(row.at("out_of_place").at("time"), 2);
  EXPECT_DOUBLE_EQ(row.at("out_of_place").at("median_time"), 1.5);
  EXPECT_DOUBLE_EQ(row.at("out_of_place").at("min_time"), 1);
  EXPECT_EQ(row.at("out_of_place").at("alg_bw"), 0.5);
  EXPECT_EQ(row.at("out_of_place").at("nwrong"), 3);
  EXPECT_TRUE(row.at("in_place").at("nwrong").is_null()) << "it was not checked";
  EXPECT_FALSE(row.contains("in_place_per_iter"));
}

TEST(PerfJson, SaysTheStepInBytesOrAsAFactor) {
  Flags flags;
  flags.step_bytes = 512;
  EXPECT_EQ(to_json(flags, {}, {}, {}, 0).at("config").at("step_bytes"), 512);
  flags.step_factor = 2;
  const Json config = to_json(flags, {}, {}, {}, 0).at("config");
  EXPECT_EQ(config.at("step_factor"), 2);
  EXPECT_FALSE(config.contains("step_bytes"));
}

TEST(PerfJson, HasProcessorTimeInPlaceOfLatencyWhereThatWasAskedFor) {
  Flags flags;
  flags.cpu_time = true;
  const Json half = to_json(flags, {}, {made_up_row()}, {}, 0).at("results").at(0).at("out_of_place");
  EXPECT_DOUBLE_EQ(half.at("cpu_time"), 0.5);
  EXPECT_FALSE(half.contains("time"));
}

TEST(PerfJson, HasIterationsByProcessWhereThereAreSeveral) {
  Flags flags;
  flags.per_iteration = true;
  flags.per_iteration_skip = 1;
  Row row = made_up_row();
  row.in_place.iterations = {3e-6, 1e-6, 2e-6};
  row.in_place.process_iterations = {{3e-6, 1e-6, 2e-6}};
  row.in_place.statistics = statistics_of({1e-6, 2e-6});
  const auto in_place = [&] {
    return to_json(flags, {}, {row}, {}, 0).at("results").at(0).at("in_place_per_iter");
  };
  EXPECT_EQ(in_place().at("skipped_iterations"), 1);
  EXPECT_EQ(in_place().at("times_us"), (Json{3.0, 1.0, 2.0}));
  EXPECT_DOUBLE_EQ(in_place().at("max_us"), 2);
  EXPECT_FALSE(in_place().contains("per_process_max_times_us"));
  row.in_place.process_iterations.push_back({1e-6, 1e-6, 1e-6});
  EXPECT_EQ(in_place().at("per_process_max_times_us"), (Json{{3.0, 1.0, 2.0}, {1.0, 1.0, 1.0}}));
}

TEST(PerfJson, SaysWhetherResultsAndBandwidthWereAsTheyShould) {
  Summary summary;
  summary.average_bus_bandwidth = 5;
  Json json = to_json({}, {}, {}, summary, 0);
  EXPECT_EQ(json.at("out_of_bounds"), (Json{{"count", 0}, {"okay", "true"}}));
  EXPECT_EQ(json.at("average_bus_bandwidth"), (Json{{"bandwidth", 5.0}, {"okay", "unchecked"}}));
  summary.failed_checks = 2;
  summary.least_allowed_bandwidth = 10;
  json = to_json({}, {}, {}, summary, 0);
  EXPECT_EQ(json.at("out_of_bounds"), (Json{{"count", 2}, {"okay", "false"}}));
  EXPECT_EQ(json.at("average_bus_bandwidth").at("okay"), "false");
  summary.least_allowed_bandwidth = 5;
  EXPECT_EQ(to_json({}, {}, {}, summary, 0).at("average_bus_bandwidth").at("okay"), "true");
}

TEST(PerfJson, KeepsTheSecretAndOthersVariablesToItself) {
  ::setenv("TOMBOLO_SECRET", "hush", 1);
  ::setenv("TOMBOLO_SECRETARY", "known", 1);
  ::setenv("SOMEBODYS_PASSWORD", "hush", 1);
  const std::string env = to_json({}, {}, {}, {}, 0).at("env").dump();
  for (const char* name : {"TOMBOLO_SECRET", "TOMBOLO_SECRETARY", "SOMEBODYS_PASSWORD"}) ::unsetenv(name);
  EXPECT_EQ(env.find("hush"), std::string::npos) << env;
  EXPECT_NE(env.find("TOMBOLO_SECRETARY=known"), std::string::npos) << env;
}

TEST(PerfJson, ListsEveryRankWithItsProcess) {
  const Json devices =
      to_json({}, {made_up_device(0), made_up_device(1)}, {}, {}, 0).at("config").at("devices");
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[1].at("rank"), 1);
  EXPECT_EQ(devices[1].at("pid"), 101);
  EXPECT_EQ(devices[1].at("hostname"), "h");
}

TEST(PerfOutputFile, IsTheFirstThatIsNotThere) {
  const TemporaryFolder folder;
  const std::string wanted = folder.file("x.json");
  EXPECT_EQ(free_output_file(wanted), wanted);
  folder.write("x.json", "");
  EXPECT_EQ(free_output_file(wanted), wanted + ".0");
  folder.write("x.json.0", "");
  folder.write("x.json.2", "");
  EXPECT_EQ(free_output_file(wanted), wanted + ".1");
  try {
    free_output_file(folder.file("none/x.json"));
    ADD_FAILURE() << "a folder that is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kSystem);
    EXPECT_NE(std::string(error.what()).find("No such file"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tombolo::bench
