// Runs tombolo profile, and lets plan and simulate use its times and a measured run.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "planner/simulate/calibrate.h"
#include "planner/testing/testing.h"
#include "tools/cli/testing_command.h"
#include "tools/launch/profile_ranks.h"

namespace tombolo::tools {
namespace {

class ProfileCommandTest : public CommandTest {
 protected:
  ProfileCommandTest() {
    auto cluster = planner::testing::make_cluster({{"a", 2}}, 1e8, 1e-4);
    for (auto& host : cluster.hosts) host.devices[0].name = "cpu";
    cluster.save(file("cluster.json"));
  }

  static std::vector<std::string> shape() {
    return {"--layers", "4", "--width", "32", "--heads", "2", "--context", "32"};
  }
  int run_with(std::vector<std::string> first, const std::vector<std::string>& more) {
    for (const std::string& each : shape()) first.push_back(each);
    first.insert(first.end(), more.begin(), more.end());
    return run(std::move(first));
  }
  int run_plan(const std::vector<std::string>& more) {
    std::vector<std::string> all{"--cluster", file("cluster.json"), "--batch", "8", "--pipeline", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return run_with({"plan"}, all);
  }
  Json json(const char* name) const {
    std::ifstream in(file(name));
    return Json::parse(in);
  }

  /// A profile with round figures: a layer takes 30 ms per row.
  void save_profile(const char* name, const char* device = "cpu") const {
    planner::Profile profile;
    for (const int rows : {1, 2})
      profile.measurements.push_back({device, "layer", 1, rows, {0.01 * rows, 0.02 * rows, 0.001, 1000}});
    std::ofstream(file(name)) << profile.to_json().dump();
  }
  /// What a run of plan.json would measure if every pass took twice the profile's time.
  void save_slow_run(const char* name) {
    auto plan = planner::Plan::load(file("plan.json"));
    auto profile = planner::Profile::load(file("layers.json"));
    for (auto& one : profile.measurements) {
      one.times.forward *= 2;
      one.times.backward *= 2;
    }
    plan.job.profile = std::make_shared<planner::Profile>(profile);
    const auto simulation = planner::simulate(plan, topology::ClusterFile::load(file("cluster.json")));
    const auto seconds = planner::rank_seconds(simulation, plan);
    planner::MeasuredRun run;
    run.step_seconds.assign(5, simulation.step_seconds);
    run.warm_up = 1;
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank)
      run.ranks.push_back(
          {plan.ranks[rank].host, plan.ranks[rank].stage, plan.ranks[rank].replica, seconds[rank], 0, 0, {}});
    run.links = simulation.links;
    std::ofstream(file(name)) << run.to_json().dump();
  }
};

TEST_F(ProfileCommandTest, MeasuresEveryPartAtEveryMicroBatchAndPlansWithIt) {
  ASSERT_EQ(run_with({"profile"},
                     {"--micro-batches", "2,1,2", "--seconds", "0.01", "--json", "-o", file("layers.json")}),
            kExitOk)
      << err_;
  const Json written = json("layers.json");
  EXPECT_EQ(Json::parse(out_), written);
  EXPECT_EQ(written.at("model").at("hidden"), 32);
  ASSERT_EQ(written.at("measurements").size(), 6u);
  for (const Json& one : written.at("measurements")) {
    EXPECT_EQ(one.at("device"), "cpu");
    EXPECT_GT(one.at("forward_seconds").get<double>() + one.at("backward_seconds").get<double>(), 0);
    EXPECT_GT(one.at("update_seconds").get<double>(), 0);
  }
  ASSERT_EQ(run_plan({"--profile", file("layers.json"), "-o", file("plan.json")}), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "times of layers as measured");
  ASSERT_EQ(run({"simulate", "--cluster", file("cluster.json"), "--plan", file("plan.json"), "--profile",
                 file("layers.json"), "--json"}),
            kExitOk)
      << err_;
  EXPECT_NEAR(Json::parse(out_).at("step_seconds").get<double>(),
              json("plan.json").at("prediction").at("step_seconds").get<double>(), 1e-9);
}

TEST_F(ProfileCommandTest, PrintsATableForPeople) {
  ASSERT_EQ(run_with({"profile"}, {"--micro-batches", "1", "--seconds", "0.01", "--name", "mine"}), kExitOk)
      << err_;
  for (const char* part : {"layer", "embedding", "head", "mine", "GFLOP/s"}) EXPECT_MENTIONS(out_, part);
}

TEST_F(ProfileCommandTest, RefusesWhatItCannotMeasure) {
  EXPECT_EQ(run_with({"profile"}, {"-n", "1000"}), kExitBadUsage);
  EXPECT_MENTIONS(err_, "1000 ranks of 1 threads");
  EXPECT_EQ(run({"profile", "--model", "layers=2,hidden=32,heads=2,context=32,bytes=2"}), kExitFailed);
  EXPECT_MENTIONS(err_, "bytes=4");
  EXPECT_EQ(run({"profile", "--model", "layers=2,hidden=32,heads=2,context=32,gated=yes"}), kExitFailed);
  EXPECT_MENTIONS(err_, "a gated MLP");
}

TEST_F(ProfileCommandTest, WithoutAGpuItSaysSoOrTakesTheCpu) {
  const std::vector<std::string> briefly{"--micro-batches", "1", "--seconds", "0.01"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), briefly.begin(), briefly.end());
    return run_with({"profile"}, more);
  };
  EXPECT_EQ(with({"--device", "cuda", "--gpu", "999"}), kExitFailed);
  EXPECT_MENTIONS(err_, "GPU 999 cannot be used");
  ASSERT_EQ(with({"--device", "auto", "--gpu", "999", "--recompute", "full", "-o", file("full.json")}),
            kExitOk)
      << err_;
  EXPECT_EQ(json("full.json").at("recompute"), "full");
  EXPECT_EQ(json("full.json").at("measurements").at(0).at("device"), "cpu");
  EXPECT_EQ(with({"--gpu", "0", "-n", "2"}), kExitBadUsage);
  EXPECT_MENTIONS(err_, "GPU 0 alone");

  // A plan by these times computes the same again; another is refused, for they say nothing of it.
  ASSERT_EQ(run_plan({"--profile", file("full.json"), "-o", file("plan.json")}), kExitOk) << err_;
  EXPECT_EQ(json("plan.json").at("job").at("recompute"), "full");
  EXPECT_EQ(run_plan({"--profile", file("full.json"), "--recompute", "none"}), kExitBadUsage);
  EXPECT_MENTIONS(err_, "measured with recomputation full, but the job has none");
}

TEST_F(ProfileCommandTest, PlanAndSimulateNameWhatAProfileContradicts) {
  save_profile("layers.json");
  ASSERT_EQ(run_plan({"--profile", file("layers.json"), "-o", file("plan.json")}), kExitOk) << err_;
  // 8 rows of 30 ms per layer and two layers per stage, after the first came and before the last is done.
  EXPECT_NEAR(json("plan.json").at("prediction").at("step_seconds").get<double>(), 9 * 2 * 0.03, 0.02);
  save_profile("other.json", "gpu");
  EXPECT_EQ(run_plan({"--profile", file("other.json")}), kExitBadUsage);
  EXPECT_MENTIONS(err_, "device \"cpu\" (host a0) has no times of kind \"layer\"; measured are: \"gpu\"");
  EXPECT_MENTIONS(err_, "other.json");
  EXPECT_EQ(run({"simulate", "--cluster", file("cluster.json"), "--plan", file("plan.json"), "--profile",
                 file("other.json")}),
            kExitBadUsage);
  std::ofstream(file("kinds.json")) << R"({"tombolo_profile": 1, "layers": [{"kind": "layer", "count": 3}],
             "measurements": [{"micro_batch": 1, "forward_seconds": 1, "backward_seconds": 1}]})";
  EXPECT_EQ(run_plan({"--profile", file("kinds.json")}), kExitBadUsage);
  EXPECT_MENTIONS(err_, "the kinds of 3 layers, but the model has 4");
  ASSERT_EQ(run_plan({"--profile", file("layers.json"), "--micro-batch", "4"}), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "micro-batches of 4 rows were not measured");
  EXPECT_EQ(run_plan({"--profile", file("layers.json"), "--what-if", "speed a0 0.5"}), kExitBadUsage);
  EXPECT_MENTIONS(err_, "with --profile the times of a0 are those measured");
}

TEST_F(ProfileCommandTest, AMeasuredRunIsSetBesideThePredictionAndCorrectsTheProfile) {
  save_profile("layers.json");
  ASSERT_EQ(run_plan({"--profile", file("layers.json"), "-o", file("plan.json")}), kExitOk) << err_;
  save_slow_run("run.json");
  const std::vector<std::string> simulate{"simulate",        "--cluster", file("cluster.json"), "--plan",
                                          file("plan.json"), "--profile", file("layers.json")};
  auto arguments = simulate;
  arguments.insert(arguments.end(), {"--measured", file("run.json"), "--report", file("page.html"),
                                     "--calibrate", file("calibrated.json")});
  ASSERT_EQ(run(arguments), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "-50 %");
  EXPECT_MENTIONS(out_, "stage 1 backward");
  EXPECT_MENTIONS(out_, "device \"cpu\": passes take 2.00 times the predicted time");
  EXPECT_MENTIONS(out_, "a0/eth");
  std::ifstream in(file("page.html"));
  std::stringstream page;
  page << in.rdbuf();
  EXPECT_MENTIONS(page.str(), "Predicted against measured");
  EXPECT_MENTIONS(page.str(), "passes take 2.00 times");
  EXPECT_EQ(page.str().find("http"), std::string::npos) << "the page needs nothing from outside";
  arguments.emplace_back("--json");
  ASSERT_EQ(run(arguments), kExitOk) << err_;
  const Json compared = Json::parse(out_);
  EXPECT_NEAR(compared.at("compared").at(0).at("error").get<double>(), -0.5, 0.02);
  EXPECT_NEAR(compared.at("compared").at(0).at("calibrated_error").get<double>(), 0, 0.01);
  EXPECT_EQ(compared.at("links").at(0).at("predicted_bytes"),
            compared.at("links").at(0).at("measured_bytes"));

  const auto layer = planner::Profile::load(file("calibrated.json")).times("cpu", "layer", 1, 1);
  ASSERT_TRUE(layer);
  EXPECT_NEAR(layer->forward, 0.02, 2e-4);
  EXPECT_NEAR(layer->backward, 0.04, 4e-4);

  // Without a profile the cluster file is corrected.
  ASSERT_EQ(run({"simulate", "--cluster", file("cluster.json"), "--plan", file("plan.json"), "--measured",
                 file("run.json"), "--calibrate", file("cluster2.json")}),
            kExitOk)
      << err_;
  ASSERT_EQ(run({"simulate", "--cluster", file("cluster2.json"), "--plan", file("plan.json"), "--json"}),
            kExitOk)
      << err_;
  EXPECT_NEAR(Json::parse(out_).at("step_seconds").get<double>(), 9 * 2 * 0.06, 0.05);
}

TEST_F(ProfileCommandTest, ARunOfAnotherPlanIsRefusedByName) {
  save_profile("layers.json");
  ASSERT_EQ(run_plan({"--profile", file("layers.json"), "-o", file("plan.json")}), kExitOk) << err_;
  save_slow_run("run.json");
  ASSERT_EQ(run_plan({"--profile", file("layers.json"), "--order", "a1,a0", "-o", file("plan.json")}),
            kExitOk)
      << err_;
  EXPECT_EQ(run({"simulate", "--cluster", file("cluster.json"), "--plan", file("plan.json"), "--measured",
                 file("run.json")}),
            kExitBadUsage);
  EXPECT_MENTIONS(err_, "run.json: measured run: rank 0 was stage 0, replica 0 on host a0");
  EXPECT_EQ(
      run({"simulate", "--cluster", file("cluster.json"), "--plan", file("plan.json"), "--calibrate", "x"}),
      kExitBadUsage)
      << "without --measured there is nothing to calibrate by";
}

DeviceTimes times_of(const char* host, const char* device, double seconds) {
  DeviceTimes times{host, device, {}};
  times.measurements.push_back({device, "layer", 1, 1, {seconds, 2 * seconds, 0.001, 10}});
  return times;
}

TEST(MergeTimes, EqualDevicesAreOneAndUnequalOnesOfOneNameAreTold) {
  std::vector<std::string> warnings;
  ProfileRequest request;
  request.model = planner::testing::small_model(2);
  auto profile = merge_times(
      request, {times_of("a0", "x", 1.0), times_of("a1", "x", 1.2), times_of("b0", "y", 5)}, warnings);
  EXPECT_TRUE(warnings.empty());
  ASSERT_EQ(profile.measurements.size(), 2u);
  EXPECT_DOUBLE_EQ(profile.times("x", "layer", 1, 1)->forward, 1.1);
  EXPECT_DOUBLE_EQ(profile.times("y", "layer", 1, 1)->forward, 5);
  EXPECT_EQ(profile.model, request.model);
  profile = merge_times(request, {times_of("a0", "x", 1.0), times_of("a1", "x", 3.0)}, warnings);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_MENTIONS(warnings[0], "device \"x\" takes 3.00 times as long on host a1 as on host a0");
  EXPECT_DOUBLE_EQ(profile.times("x", "layer", 1, 1)->forward, 3);
}

}  // namespace
}  // namespace tombolo::tools
