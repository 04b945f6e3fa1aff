#include "tools/cli/cluster_option.h"

#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "planner/testing/testing.h"
#include "tools/cli/testing.h"

namespace tombolo::tools {
namespace {

class ClusterOption : public ::testing::Test {
 protected:
  ClusterOption() {
    planner::testing::make_cluster({{"a", 1}}, 1e9).save(folder_.file("option.json"));
    planner::testing::make_cluster({{"b", 1}}, 1e9).save(folder_.file("variable.json"));
  }
  TemporaryFolder folder_;
};

TEST_F(ClusterOption, GoesBeforeTheVariable) {
  const TemporaryVariable variable("TOMBOLO_CLUSTER", folder_.file("variable.json"));
  EXPECT_EQ(load_cluster(folder_.file("option.json")).hosts.at(0).name, "a0");
  EXPECT_EQ(load_cluster("").hosts.at(0).name, "b0");
}

TEST_F(ClusterOption, SaysWhatToGiveWhereNeitherIsThere) {
  const TemporaryVariable variable("TOMBOLO_CLUSTER");
  const std::string message = error_of([] { load_cluster(""); });
  EXPECT_MENTIONS(message, "no cluster file: give --cluster FILE or set TOMBOLO_CLUSTER");
  EXPECT_MENTIONS(message, "tombolo probe");
}

TEST_F(ClusterOption, NamesAFileThatIsNotThere) {
  const TemporaryVariable variable("TOMBOLO_CLUSTER", folder_.file("gone.json"));
  EXPECT_MENTIONS(error_of([] { load_cluster(""); }), "gone.json");
}

}  // namespace
}  // namespace tombolo::tools
