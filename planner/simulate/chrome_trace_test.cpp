#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "planner/simulate/simulator.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::simple_plan;
using testing::small_model;

TEST(ChromeTrace, HasOneEventPerSpanInMicroseconds) {
  const auto cluster = make_cluster({{"a", 2}}, 1e6, 1e-4);
  const Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 2, 1, 3);
  const Simulation simulation = simulate(plan, cluster);
  const Json trace = to_chrome_trace(simulation, plan);
  std::size_t spans = 0;
  double last = 0;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    ++spans;
    last = std::max(last, event.at("ts").get<double>() + event.at("dur").get<double>());
  }
  EXPECT_EQ(spans, simulation.spans.size());
  EXPECT_GT(spans, 12u);
  EXPECT_LE(last, simulation.step_seconds * 1e6 * (1 + 1e-9));
}

TEST(ChromeTrace, PutsTransfersBesideTheComputingAndNamesEveryRank) {
  const Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 1, 2, 1);
  Simulation simulation;
  simulation.spans = {{1, "forward", 3, 0.5, 2}, {1, "send", 3, 2, 3}, {1, "all-reduce", -1, 2, 4}};
  const Json trace = to_chrome_trace(simulation, plan);
  std::set<int> threads;
  std::set<std::string> processes;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("name") == "process_name") processes.insert(event.at("args").at("name").get<std::string>());
    if (event.at("ph") != "X") continue;
    threads.insert(event.at("tid").get<int>());
    EXPECT_EQ(event.at("pid"), 1);
    EXPECT_EQ(event.contains("args"), event.at("name") != "all-reduce") << event;
    if (event.at("name") == "forward") {
      EXPECT_DOUBLE_EQ(event.at("ts").get<double>(), 0.5e6);
      EXPECT_DOUBLE_EQ(event.at("dur").get<double>(), 1.5e6);
    }
  }
  EXPECT_EQ(threads.size(), 3u);
  EXPECT_EQ(processes,
            (std::set<std::string>{"rank 0 (a0, stage 0, replica 0)", "rank 1 (a1, stage 0, replica 1)"}));
}

}  // namespace
}  // namespace tombolo::planner
