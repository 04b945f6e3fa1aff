#include "tools/cli/profile_option.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "planner/testing/testing.h"
#include "tools/cli/testing.h"

namespace tombolo::tools {
namespace {

class ProfileOption : public ::testing::Test {
 protected:
  ProfileOption() {
    for (const int rows : {1, 2})
      for (const char* kind : {"layer", "embedding", "head"})
        profile_.measurements.push_back({"test", kind, 1, rows, {0.01 * rows, 0.02 * rows, 0.001, 10}});
    folder_.write("layers.json", profile_.to_json().dump());
  }
  std::shared_ptr<const planner::Profile> load(const std::vector<std::string>& hosts) {
    return load_profile(folder_.file("layers.json"), planner::testing::small_model(4), hosts, cluster_);
  }

  TemporaryFolder folder_;
  planner::Profile profile_;
  topology::ClusterFile cluster_ = planner::testing::make_cluster({{"a", 2}}, 1e8);
};

TEST_F(ProfileOption, SetsTheSpeedOfDevicesToWhatWasMeasured) {
  const auto loaded = load({});
  EXPECT_EQ(loaded->measurements.size(), profile_.measurements.size());
  const double flops = 3 * planner::testing::small_model(4).layer_forward_flops() / 0.03;
  for (const auto& host : cluster_.hosts) EXPECT_NEAR(host.devices[0].flops_per_second / flops, 1, 1e-9);
}

TEST_F(ProfileOption, OnlyHostsThatTakePartNeedTimes) {
  cluster_.hosts[1].devices[0].name = "unmeasured";
  EXPECT_NO_THROW(load({"a0"}));
  const std::string message = error_of([&] { load({}); });
  EXPECT_EQ(message.find(folder_.file("layers.json") + ": "), 0U) << message;
  EXPECT_MENTIONS(message, "device \"unmeasured\" (host a1)");
}

TEST_F(ProfileOption, NotesWhatThePlanGoesByOnce) {
  planner::Plan plan =
      planner::testing::simple_plan(planner::testing::small_model(4), {"a0", "a1"}, 1, 2, 1, 8);
  plan.job.profile = load({});
  note_profile("layers.json", cluster_, plan);
  // A word on the micro-batch, which is the same for both replicas, and one on the source of the times.
  ASSERT_EQ(plan.notes.size(), 2U);
  EXPECT_EQ(plan.notes[0], "times of layers as measured (layers.json), not by FLOPs");
  EXPECT_MENTIONS(plan.notes[1], "micro-batches of 8 rows were not measured");
  note_profile("layers.json", cluster_, plan);
  EXPECT_EQ(plan.notes.size(), 2U) << "a plan that goes on has them already";
}

TEST_F(ProfileOption, RefusesAWhatIfThatTheMeasuredTimesWouldHide) {
  EXPECT_NO_THROW(refuse_speeds({}));
  EXPECT_NO_THROW(refuse_speeds({"lose a1", "link a0 a1 10Gbit"}));
  const std::string message = error_of([] { refuse_speeds({"lose a1", "link a0 a1 10Gbit; speed a0 0.5"}); });
  EXPECT_MENTIONS(message, "--what-if \"link a0 a1 10Gbit; speed a0 0.5\"");
  EXPECT_MENTIONS(message, "the times of a0 are those measured");
}

}  // namespace
}  // namespace tombolo::tools
