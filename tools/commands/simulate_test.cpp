// Runs tombolo simulate as a user calls it; plan_test.cpp and profile_test.cpp let it simulate and compare.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "planner/testing/testing.h"
#include "tools/cli/testing_command.h"

namespace tombolo::tools {
namespace {

class SimulateCommand : public CommandTest {
 protected:
  SimulateCommand() {
    planner::testing::make_cluster({{"a", 2}}, 1e7, 1e-4).save(file("cluster.json"));
    planner::testing::simple_plan(planner::testing::small_model(4), {"a0", "a1"}, 2, 1, 4)
        .save(file("plan.json"));
  }
  std::vector<std::string> command(std::vector<std::string> more) const {
    more.insert(more.begin(), {"simulate", "--plan", file("plan.json"), "--cluster", file("cluster.json")});
    return more;
  }
};

TEST_F(SimulateCommand, PrintsEveryRankAndLinkAsJson) {
  ASSERT_EQ(run(command({"--json"})), kExitOk) << err_;
  const Json result = Json::parse(out_);
  const double step = result.at("step_seconds");
  EXPECT_GT(step, 0);
  EXPECT_NEAR(result.at("tokens_per_second").get<double>() * step, 4 * 32, 1e-6);
  ASSERT_EQ(result.at("ranks").size(), 2U);
  for (const Json& rank : result.at("ranks"))
    EXPECT_NEAR(rank.at("utilisation").get<double>() * step, rank.at("busy_seconds").get<double>(), 1e-12);
  ASSERT_EQ(result.at("links").size(), 2U);
  EXPECT_EQ(result.at("links")[0].at("from"), "a0/eth");
}

TEST_F(SimulateCommand, RefusesFilesThatWouldNotBeWritten) {
  refuses(command({"--report", file("page.html")}), {"--report", "--measured"});
  refuses(command({"--calibrate", file("new.json")}), {"--calibrate", "--measured"});
  refuses(command({"--measured", file("run.json"), "--trace", file("trace.json")}),
          {"--trace", "--measured"});
}

TEST_F(SimulateCommand, NamesTheFileThatCannotBeUsed) {
  refuses({"simulate"}, {"--plan"});
  refuses(command({"--measured", file("none.json")}), {"none.json"});
  refuses(command({"--profile", file("none.json")}), {"none.json"});
  folder_.write("plan.json", "{");
  refuses(command({}), {"plan.json"});
}

TEST_F(SimulateCommand, ATraceThatCannotBeWrittenIsAFailure) {
  EXPECT_EQ(run(command({"--trace", file("no/folder/trace.json")})), kExitFailed);
  EXPECT_MENTIONS(err_, "no/folder/trace.json");
}

}  // namespace
}  // namespace tombolo::tools
