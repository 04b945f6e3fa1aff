#include "planner/testing/testing_launch.h"

namespace tombolo::planner {
namespace {

using testing::simple_plan;
using testing::small_model;

using Launch = testing::LaunchScripts;

TEST_F(Launch, EachLauncherHasAName) {
  EXPECT_EQ(launcher_names().size(), 7);
  for (const std::string_view name : launcher_names())
    EXPECT_EQ(launcher_name(launcher_from_name(name).value()), name);
  EXPECT_FALSE(launcher_from_name("pigeon"));
}

TEST_F(Launch, WithoutTheClusterFileEveryScriptSaysWhatToCopy) {
  stand_in("mpirun", "echo 'mpirun (Open MPI) 4.1.4'\n");
  const Plan plan = simple_plan(small_model(8), {"a0", "b0"}, 2, 1, 4);
  std::filesystem::remove(folder_ / "cluster.json");
  for (const std::string_view name : launcher_names()) {
    const std::string out = run(emit(*launcher_from_name(name), plan), "NODE_RANK=0", "train.py");
    EXPECT_EQ(status_, 2) << out;
    EXPECT_MENTIONS(out, "cluster.json; copy the plan's cluster file to this node and set TOMBOLO_CLUSTER");
  }
}

}  // namespace
}  // namespace tombolo::planner
