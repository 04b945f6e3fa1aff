// Runs tombolo plan --running, with what its job wrote, as a user calls it.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "planner/testing/testing.h"
#include "tools/commands/testing_plan.h"

namespace tombolo::tools {
namespace {

class PlanRunning : public PlanCommand {};

TEST_F(PlanRunning, GoesOnFromARunningPlan) {
  ASSERT_EQ(run_plan({"--strategy", "holmes", "-o", file("plan.json")}), kExitOk) << err_;
  ASSERT_EQ(run_plan({"--strategy", "holmes", "--running", file("plan.json")}), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "The running plan goes on");
  ASSERT_EQ(run_plan({"--strategy", "holmes", "--running", file("plan.json"), "--json"}), kExitOk) << err_;
  EXPECT_TRUE(Json::parse(out_).at("keep").get<bool>());
  EXPECT_GT(Json::parse(out_).at("running_step_seconds").get<double>(), 0);
  auto cluster = topology::ClusterFile::load(file("cluster.json"));
  std::erase_if(cluster.hosts, [](const auto& host) { return host.name == "b1"; });
  std::erase_if(cluster.links,
                [](const auto& link) { return link.from_host == "b1" || link.to_host == "b1"; });
  cluster.save(file("cluster.json"));
  ASSERT_EQ(run_plan({"--strategy", "holmes", "--running", file("plan.json"), "-o", file("next.json")}),
            kExitOk)
      << err_;
  EXPECT_MENTIONS(out_, "The running plan cannot go on: ");
  EXPECT_MENTIONS(out_, "cluster.json has no host \"b1\"");
  EXPECT_MENTIONS(out_, "What moves: ");
  ASSERT_EQ(run_plan({"--strategy", "holmes", "--running", file("plan.json"), "--json"}), kExitOk) << err_;
  const Json change = Json::parse(out_);
  EXPECT_FALSE(change.at("keep").get<bool>());
  EXPECT_NE(change.at("why_not").get<std::string>().find("b1"), std::string::npos);
  EXPECT_GT(change.at("moved_bytes").get<std::uint64_t>(), 0U);
  std::uint64_t moved = 0;
  for (const Json& move : change.at("moves")) moved += move.at("bytes").get<std::uint64_t>();
  EXPECT_LE(moved, change.at("moved_bytes").get<std::uint64_t>());
  EXPECT_EQ(change.at("plan"), planner::Plan::load(file("next.json")).to_json());
  for (const auto& place : planner::Plan::load(file("next.json")).ranks) EXPECT_NE(place.host, "b1");
}

TEST_F(PlanRunning, TimesARunningPlanOfAnEarlierVersionAsItsFrameworkSends) {
  const std::vector<std::string> fixed{"--framework", "megatron", "--pipeline", "2", "--schedule", "1f1b"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), fixed.begin(), fixed.end());
    return run_plan(more);
  };
  ASSERT_EQ(with({"-o", file("plan.json")}), kExitOk) << err_;
  const double seconds = planner::Plan::load(file("plan.json")).prediction.step_seconds;
  std::ifstream in(file("plan.json"));
  Json plan = Json::parse(in);
  ASSERT_EQ(plan["job"].erase("sends"), 1u) << "Megatron-LM waits for what it sends";
  std::ofstream(file("old.json")) << plan;
  ASSERT_EQ(with({"--running", file("old.json"), "--json"}), kExitOk) << err_;
  EXPECT_NEAR(Json::parse(out_).at("running_step_seconds").get<double>(), seconds, 1e-9 * seconds);
}

TEST_F(PlanRunning, CorrectsSpeedsByWhatTheRunningPlanTook) {
  ASSERT_EQ(run_plan({"--pipeline", "2", "--data", "2", "-o", file("plan.json")}), kExitOk) << err_;
  const planner::Plan plan = planner::Plan::load(file("plan.json"));
  Json measured{{"tombolo_measured", 1},
                {"step_seconds", {10.0, 10.0, 10.0}},
                {"ranks", Json::array()},
                {"links", Json::array()}};
  for (const auto& place : plan.ranks)
    measured["ranks"].push_back({{"host", place.host},
                                 {"stage", place.stage},
                                 {"replica", place.replica},
                                 {"forward_seconds", 2.0},
                                 {"backward_seconds", 4.0},
                                 {"update_seconds", 0.1},
                                 {"wait_seconds", 1.0},
                                 {"reduce_seconds", 0.1}});
  std::ofstream(file("run.json")) << measured;
  const auto running_step = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--pipeline", "2", "--data", "2", "--running", file("plan.json"), "--json"});
    EXPECT_EQ(run_plan(more), kExitOk) << err_;
    return Json::parse(out_).at("running_step_seconds").get<double>();
  };
  EXPECT_LT(running_step({}), 3);
  EXPECT_GT(running_step({"--measured", file("run.json")}), 6) << "its ranks compute for 6 s";
  EXPECT_EQ(run_plan({"--measured", file("run.json")}), kExitBadUsage) << "of no running plan";
  EXPECT_EQ(run_plan({"--running", file("plan.json"), "--measured", file("none.json")}), kExitBadUsage);
  EXPECT_MENTIONS(err_, "none.json");
}

TEST_F(PlanRunning, TakesTheJobOverFromARunningPlan) {
  ASSERT_EQ(
      run_plan({"--framework", "megatron", "--pipeline", "2", "--dtype", "bf16", "-o", file("plan.json")}),
      kExitOk)
      << err_;
  const std::vector<std::string> bare{"plan", "--cluster", file("cluster.json"), "--running",
                                      file("plan.json")};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), bare.begin(), bare.end());
    return more;
  };
  ASSERT_EQ(run(with({"--json"})), kExitOk) << err_;
  const Json running = planner::Plan::load(file("plan.json")).to_json(), next = Json::parse(out_).at("plan");
  EXPECT_EQ(next.at("model"), running.at("model"));
  for (const char* field : {"framework", "global_batch"})
    EXPECT_EQ(next.at("job").at(field), running.at("job").at(field)) << field;
  refuses(with({"--batch", "7"}), {"plan.json is of another job", "batch 7 in place of"});
  refuses(with({"--framework", "nemo"}), {"framework nemo in place of megatron"});
  refuses(with({"--layers", "2", "--width", "8", "--heads", "2", "--context", "8"}),
          {"layers 2 in place of"});
  refuses({"plan", "--cluster", file("cluster.json"), "--layers", "2"}, {"--batch is required"});
}

TEST_F(PlanRunning, TakesThePrecisionOverFromARunningPlan) {
  ASSERT_EQ(run_plan({"--framework", "megatron", "--dtype", "bf16", "-o", file("plan.json")}), kExitOk)
      << err_;
  const auto running = planner::Plan::load(file("plan.json"));
  ASSERT_EQ(running.job.model.bytes_per_value, 2);
  // Of the same model, whose bytes are not said.
  ASSERT_EQ(run_plan({"--running", file("plan.json"), "--json"}), kExitOk) << err_;
  EXPECT_EQ(Json::parse(out_).at("plan").at("model"), running.to_json().at("model"));
  ASSERT_EQ(run_plan({"--running", file("plan.json"), "--dtype", "bf16"}), kExitOk) << err_;
  for (const char* other : {"fp32", "fp8-hybrid"}) {
    EXPECT_EQ(run_plan({"--running", file("plan.json"), "--dtype", other}), kExitBadUsage);
    EXPECT_MENTIONS(err_,
                    fmt::format("another job than what is asked for (precision {} in place of bf16)", other));
  }
}

TEST_F(PlanRunning, TakesTheSoftwareOverFromARunningPlanWhereAllGpusHaveARecordOfIt) {
  have_gpus("H100-SXM5-80GB");
  ASSERT_EQ(run_plan({"--framework", "megatron", "--dtype", "bf16", "--software", "nanotron", "-o",
                      file("plan.json")}),
            kExitOk)
      << err_;
  const auto next = [&] {
    EXPECT_EQ(run({"plan", "--cluster", file("cluster.json"), "--running", file("plan.json"), "--json"}),
              kExitOk)
        << err_;
    return Json::parse(out_).at("plan");
  };
  EXPECT_EQ(next().at("job").at("software"), "nanotron");
  EXPECT_TRUE(out_.find("the running plan was made with the constants of") == std::string::npos) << out_;
  have_gpus("A100-SXM4-80GB");
  EXPECT_FALSE(next().at("job").contains("software"));
  EXPECT_MENTIONS(
      out_,
      "the running plan was made with the constants of nanotron, of which the library has none for "
      "A100-SXM4-80GB of host a0: those of Megatron-LM count in their place");
  EXPECT_EQ(run_plan({"--running", file("plan.json"), "--software", "nanotron"}), kExitBadUsage);
  EXPECT_MENTIONS(err_, "leave out --software");
}

TEST_F(PlanRunning, SaysWhereALogIsSoFarFromThePlanThatTheCorrectionHasItsLimit) {
  const std::vector<std::string> layout{"--framework", "megatron", "--pipeline", "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), layout.begin(), layout.end());
    return run_plan(more);
  };
  ASSERT_EQ(with({"-o", file("plan.json")}), kExitOk) << err_;
  std::ofstream(file("train.log")) << " iteration 1/ 10 | elapsed time per iteration (ms): 9e8 |\n";
  ASSERT_EQ(with({"--running", file("plan.json"), "--measured", file("train.log")}), kExitOk) << err_;
  EXPECT_MENTIONS(err_, "corrected by a factor of 4, the most that is tried");
}

TEST_F(PlanRunning, CorrectsSpeedsByTheLogOfEachFramework) {
  const auto correct = [&](const std::string& framework, const auto& line_of) {
    ASSERT_EQ(run_plan({"--framework", framework, "--pipeline", "2", "-o", file("plan.json")}), kExitOk)
        << err_;
    const planner::Plan plan = planner::Plan::load(file("plan.json"));
    const double tokens = static_cast<double>(plan.job.global_batch) * plan.job.model.context;
    const double seconds = 2 * plan.prediction.step_seconds;
    std::string log;
    for (int step = 1; step <= 10; ++step) {
      const double taken = step == 1 ? 30 * seconds : seconds;
      log += line_of(step, taken, tokens / taken / static_cast<double>(plan.ranks.size())) + "\n";
    }
    std::ofstream(file("train.log")) << log;
    ASSERT_EQ(run_plan({"--framework", framework, "--pipeline", "2", "--running", file("plan.json"),
                        "--measured", file("train.log"), "--json"}),
              kExitOk)
        << err_;
    const Json next = Json::parse(out_);
    EXPECT_NEAR(next.at("running_step_seconds").get<double>() / seconds, 1, 0.15) << framework;
    EXPECT_TRUE(err_.find("is it a log of this plan") == std::string::npos) << err_;
  };
  correct("megatron", [](int step, double seconds, double) {
    return fmt::format(" iteration {}/ 10 | elapsed time per iteration (ms): {} |", step, 1e3 * seconds);
  });
  correct("nemo", [](int step, double seconds, double) {
    return fmt::format("Training epoch 0, iteration {}/9 | train_step_timing in s: {} |", step, seconds);
  });
  correct("torchtitan", [](int step, double, double tokens_per_second) {
    return fmt::format("[titan] step: {:2}  loss:  9.1  tps: {}  mfu: 3.1%", step, tokens_per_second);
  });
  correct("deepspeed", [](int step, double seconds, double) {
    return fmt::format("steps: {} loss: 9.1 iter time (s): {} samples/sec: 0.0", step, seconds);
  });
}

TEST_F(PlanRunning, SaysWhatItLeftOutOfALog) {
  ASSERT_EQ(run_plan({"--framework", "megatron", "--pipeline", "2", "-o", file("plan.json")}), kExitOk)
      << err_;
  std::ofstream(file("train.log")) << "step: 1 loss: 9 tps: 700 tflops: 1\n";
  const std::vector<std::string> again{"--framework", "megatron",        "--pipeline", "2",
                                       "--running",   file("plan.json"), "--measured", file("train.log")};
  EXPECT_EQ(run_plan(again), kExitOk) << err_;
  EXPECT_MENTIONS(err_, "are those of torchtitan, and the plan is for Megatron-LM");
  std::ofstream(file("train.log")) << "hello\n";
  EXPECT_EQ(run_plan(again), kExitBadUsage);
  EXPECT_MENTIONS(err_, "of 1 line none has \"elapsed time per iteration (ms):\"");
}

}  // namespace
}  // namespace tombolo::tools
