#include "planner/model/profile.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "planner/cost/memory.h"
#include "planner/simulate/simulator.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using namespace testing;

Profile::Measurement measured(const char* kind, int tensor, int rows, double forward, double backward,
                              std::uint64_t kept = 0) {
  return {"", kind, tensor, rows, {forward, backward, 0, kept}};
}

std::string message_of(const std::string& json) {
  try {
    Profile::parse(JsonDocument::parse(json, "profile.json"));
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    return error.what();
  }
  return "nothing thrown";
}

TEST(Profile, TakesWhatWasMeasuredAndLinesBetween) {
  Profile profile;
  profile.measurements = {measured("layer", 1, 2, 2, 6, 200), measured("layer", 1, 8, 5, 12, 800)};
  const auto exact = profile.times("any", "layer", 1, 8), between = profile.times("any", "layer", 1, 4),
             above = profile.times("any", "layer", 1, 16), below = profile.times("any", "layer", 1, 1);
  EXPECT_DOUBLE_EQ(exact->forward, 5);
  EXPECT_DOUBLE_EQ(between->forward, 3);
  EXPECT_EQ(between->kept_bytes, 400u);
  EXPECT_DOUBLE_EQ(above->forward, 9) << "beyond the largest on a line";
  EXPECT_DOUBLE_EQ(above->backward, 20);
  EXPECT_EQ(above->kept_bytes, 1600u);
  EXPECT_DOUBLE_EQ(below->backward, 6) << "below the smallest as long as it";
  EXPECT_EQ(below->kept_bytes, 100u);
  EXPECT_FALSE(profile.times("any", "layer", 2, 2)) << "a degree that was not measured";
  EXPECT_FALSE(profile.times("any", "head", 1, 2));
}

TEST(Profile, BeyondTheLargestMicroBatchLaunchesDoNotGrow) {
  // Layers of width 1,024 on an A100: 3.1 ms are launches, and the rest 0.78 ms a row.
  Profile profile;
  profile.measurements = {measured("layer", 1, 1, 3.1, 3.1), measured("layer", 1, 2, 3.2, 3.2)};
  EXPECT_DOUBLE_EQ(profile.times("any", "layer", 1, 8)->forward, 4 * 3.2)
      << "of launches alone nothing follows but that more work takes no more than in proportion";
  profile.measurements.push_back(measured("layer", 1, 4, 5.0, 5.0));
  EXPECT_NEAR(profile.times("any", "layer", 1, 8)->forward, 5.0 + 4 * 0.9, 1e-12);
  profile.measurements = {measured("layer", 1, 1, 1, 1), measured("layer", 1, 2, 4, 4)};
  EXPECT_DOUBLE_EQ(profile.times("any", "layer", 1, 4)->forward, 8) << "never more than in proportion";
}

TEST(Profile, ASmallMicroBatchTakesNoLongerThanALargerOne) {
  Profile profile;
  profile.measurements = {measured("layer", 1, 1, 9, 2), measured("layer", 1, 2, 4, 3),
                          measured("layer", 1, 4, 5, 7)};
  EXPECT_DOUBLE_EQ(profile.times("any", "layer", 1, 1)->forward, 4);
  EXPECT_DOUBLE_EQ(profile.times("any", "layer", 1, 1)->backward, 2);
}

TEST(Profile, KnowsItsModelAndItsMicroBatchesWhenReadAgain) {
  Profile profile;
  profile.model = small_model(3);
  profile.measurements = {measured("layer", 1, 4, 1, 1), measured("layer", 1, 1, 1, 1),
                          measured("head", 1, 8, 1, 1)};
  const Profile again = Profile::parse(JsonDocument::parse(profile.to_json().dump(), "again"));
  EXPECT_EQ(again.model, profile.model);
  EXPECT_EQ(again.micro_batches("cpu"), (std::vector<int>{1, 4}));
}

TEST(Profile, PrefersTheDevice) {
  Profile profile;
  profile.measurements = {measured("layer", 1, 1, 9, 9), measured("layer", 1, 1, 4, 4)};
  profile.measurements[1].device = "fast";
  EXPECT_DOUBLE_EQ(profile.times("fast", "layer", 1, 1)->forward, 4);
  EXPECT_DOUBLE_EQ(profile.times("other", "layer", 1, 1)->forward, 9);
}

TEST(Profile, TheDocumentedExampleReadsAndWritesAgain) {
  std::ifstream file(TOMBOLO_SOURCE_DIR "/docs/planning.md");
  ASSERT_TRUE(file) << "docs/planning.md";
  std::stringstream text;
  text << file.rdbuf();
  const std::string document = text.str();
  const auto begin = document.find("```json\n"), end = document.find("```", begin + 8);
  ASSERT_NE(begin, std::string::npos);
  const Profile profile =
      Profile::parse(JsonDocument::parse(document.substr(begin + 8, end - begin - 8), "docs/planning.md"));
  EXPECT_EQ(profile.layers.size(), 12u);
  EXPECT_EQ(profile.kind_of(0), "wide");
  EXPECT_EQ(profile.kind_of(11), "narrow");
  const Json again = profile.to_json();
  EXPECT_EQ(Profile::parse(JsonDocument::parse(again.dump(), "again")).to_json(), again);
}

TEST(Profile, NamesWhatIsWrong) {
  EXPECT_NE(message_of(R"({"tombolo_profile": 1, "measurements": []})").find("at least one"),
            std::string::npos);
  EXPECT_NE(message_of(R"({"tombolo_profile": 2, "measurements": []})").find("version 2"), std::string::npos);
  const std::string negative = message_of(
      "{\"tombolo_profile\": 1,\n\"measurements\": [{\"micro_batch\": 1,\n\"forward_seconds\": -1,\n"
      "\"backward_seconds\": 1}]}");
  EXPECT_NE(negative.find("profile.json:3: measurements[0].forward_seconds"), std::string::npos) << negative;
  const std::string twice = message_of(
      "{\"tombolo_profile\": 1, \"measurements\": [\n"
      "{\"device\": \"cpu\", \"micro_batch\": 2, \"forward_seconds\": 1, \"backward_seconds\": 1},\n"
      "{\"device\": \"cpu\", \"micro_batch\": 2, \"forward_seconds\": 2, \"backward_seconds\": 1}]}");
  EXPECT_NE(twice.find("profile.json:3: measurements[1]: kind \"layer\" with micro-batches of 2 rows"),
            std::string::npos)
      << twice;
  Profile profile;
  profile.layers = {"a", "b"};
  EXPECT_THROW(profile.check(small_model(3)), Error);
  EXPECT_NO_THROW(profile.check(small_model(2)));
}

/// Two stages of two layers each on a free network.
Plan profiled_plan(const std::shared_ptr<Profile>& profile) {
  Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 2, 1, 3);
  plan.job.framework = Framework::kMegatron;
  plan.job.profile = profile;
  return plan;
}

TEST(Profile, DecidesTheSimulatedTime) {
  const auto cluster = make_cluster({{"a", 2}}, 1e18);
  auto profile = std::make_shared<Profile>();
  profile->measurements = {measured("layer", 1, 1, 0.01, 0.03)};
  const Plan plan = profiled_plan(profile);
  // (m + p - 1) (f + b), of two layers each
  EXPECT_NEAR(simulate(plan, cluster).step_seconds, (3 + 1) * 2 * 0.04, 1e-6);
  profile->measurements.push_back(measured("head", 1, 1, 0.01, 0.01));
  // The last stage computes 3 (f + b + head), after the first micro-batch came and before the last is done.
  EXPECT_NEAR(simulate(plan, cluster).step_seconds, 3 * 0.1 + 0.08, 1e-6);
}

TEST(Profile, LayersMayDiffer) {
  const auto cluster = make_cluster({{"a", 2}}, 1e18);
  auto profile = std::make_shared<Profile>();
  profile->layers = {"light", "light", "heavy", "heavy"};
  profile->measurements = {measured("light", 1, 1, 0.01, 0.01), measured("heavy", 1, 1, 0.02, 0.04)};
  EXPECT_NEAR(simulate(profiled_plan(profile), cluster).step_seconds, 3 * 0.12 + 0.04, 1e-6);
  profile->layers.back() = "unknown";
  EXPECT_THROW(simulate(profiled_plan(profile), cluster), Error);
}

TEST(Profile, DecidesWhatIsKeptAndSent) {
  auto profile = std::make_shared<Profile>();
  profile->layers = {"a", "a", "b", "b"};
  profile->overhead_bytes = 1000;
  profile->measurements = {measured("a", 1, 1, 0.01, 0.01, 500), measured("b", 1, 1, 0.01, 0.01, 700)};
  const Plan plan = profiled_plan(profile), plain = profiled_plan(nullptr);
  const RankMemory first = rank_memory(plan, 0, 0), without = rank_memory(plain, 0, 0);
  const std::uint64_t masks = 32 * 64;  // the embedding's dropout
  EXPECT_EQ(first.activations, 2 * (2 * 500u + masks));
  EXPECT_EQ(first.buffers, without.buffers + 1000);
  profile->kinds = {{"a", 10'000, 4000, 123}};
  EXPECT_EQ(plan.job.layer_parameters(0, 2, 1), 20'000u);
  EXPECT_EQ(plan.job.layer_parameters(0, 2, 2), 2 * (3000 + 4000u));
  EXPECT_DOUBLE_EQ(plan.job.boundary_bytes(1), 123);
  EXPECT_DOUBLE_EQ(plan.job.boundary_bytes(2), plan.job.model.boundary_bytes());
}

TEST(Profile, KeepsWhatSendingTakes) {
  Profile profile;
  profile.measurements = {{"", "layer", 1, 1, {0.1, 0.2, 0, 0}}};
  EXPECT_FALSE(profile.to_json().contains("sending_seconds_per_byte"));
  profile.sending_seconds_per_byte = 2e-9;
  const Profile again = Profile::parse(JsonDocument::parse(profile.to_json().dump(), "again"));
  EXPECT_EQ(again.sending_seconds_per_byte, 2e-9);
}

}  // namespace
}  // namespace tombolo::planner
