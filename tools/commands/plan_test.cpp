// Runs tombolo plan and tombolo simulate as a user calls them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "planner/testing/testing.h"
#include "tools/commands/testing_plan.h"
#include "tools/reports/plan_report.h"

namespace tombolo::tools {
namespace {

TEST_F(PlanCommand, NamesTheTrafficOverSharedLinks) {
  auto cluster = topology::ClusterFile::load(file("cluster.json"));
  cluster.shared_links = {{"a to b", {{"a0", "eth"}, {"a1", "eth"}}, {{"b0", "eth"}, {"b1", "eth"}}, 1.25e6}};
  cluster.save(file("cluster.json"));
  ASSERT_EQ(run_plan({"--pipeline", "2", "--report", file("shared.html")}), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "Of these over the shared link a to b: ");
  EXPECT_MENTIONS(out_, "at 10 Mbit/s");
  std::ifstream in(file("shared.html"));
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  EXPECT_MENTIONS(page, "Shared link");
}

TEST_F(PlanCommand, NamesTheAlgorithmThatItExpectsOfTheEngine) {
  ASSERT_EQ(run_plan({"--data", "4", "--pipeline", "1"}), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "the engine is expected to reduce gradients by two-level in pieces of ");
  ASSERT_EQ(run_plan({"--data", "4", "--pipeline", "1", "--json"}), kExitOk) << err_;
  const Json plan = Json::parse(out_);
  const Json& expected = plan.at("prediction").at("reductions").at(0);
  EXPECT_EQ(expected.at("algorithm"), "two-level");
  EXPECT_EQ(expected.at("ranks"), Json({0, 1, 2, 3}));
  EXPECT_GT(expected.at("seconds").get<double>(), expected.at("bytes").get<double>() / 2.4e7)
      << "which both hosts of a cluster send at once";
  ASSERT_EQ(run_plan({"--data", "4", "--pipeline", "1", "--framework", "megatron", "--json"}), kExitOk)
      << err_;
  EXPECT_FALSE(Json::parse(out_).at("prediction").contains("reductions")) << "NCCL reduces";
}

TEST_F(PlanCommand, WritesAPageThatNeedsNothingFromOutside) {
  ASSERT_EQ(run_plan({"--pipeline", "2", "--report", file("plan.html")}), kExitOk) << err_;
  std::ifstream in(file("plan.html"));
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  for (const char* outside : {"http:", "https:", "<script", "<link", "<img", "@import", "url(", "nan"})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  for (const char* part :
       {"Why this plan", "What a change would bring", "One step, rank by rank", "Memory per rank",
        "Traffic per link and step", "activations at the most", "InfiniBand", "class=\"t-forward\"",
        "class=\"m-optimizer\"", "For comparison, strategy megatron"})
    EXPECT_MENTIONS(page, part);
  // One bar of a forward pass per micro-batch and rank.
  std::size_t bars = 0;
  for (auto at = page.find("t-forward\""); at != std::string::npos; at = page.find("t-forward\"", at + 1))
    ++bars;
  const auto plan = [&] {
    EXPECT_EQ(run_plan({"--pipeline", "2", "--json"}), kExitOk);
    return planner::Plan::parse(JsonDocument::parse(out_, "stdout"));
  }();
  EXPECT_EQ(bars, plan.ranks.size() * static_cast<std::size_t>(plan.micro_batches()));
  EXPECT_NE(run_plan({"--report", "/nonexistent/plan.html"}), kExitOk);
  EXPECT_MENTIONS(err_, "/nonexistent/plan.html");
}

TEST_F(PlanCommand, ShowsEveryReplicaWhereTheyDiffer) {
  using planner::Pipeline;
  ASSERT_EQ(run_plan({"--pipeline", "2", "-o", file("plan.json")}), kExitOk) << err_;
  planner::Plan plan = planner::Plan::load(file("plan.json"));
  plan.job.framework = planner::Framework::kMegatron;
  plan.pipelines = {Pipeline{{{0, 8, 1}}, 8, 2}, Pipeline{{{0, 2, 1}, {2, 5, 1}, {7, 1, 1}}, 24, 4}};
  plan.ranks = {{"a0", 0, 0, 0, 0}, {"a1", 0, 0, 1, 0}, {"b0", 0, 1, 1, 0}, {"b1", 0, 2, 1, 0}};
  plan.prediction.memory.clear();
  const auto cluster = topology::ClusterFile::load(file("cluster.json"));
  const std::string text = describe_plan(plan, cluster, planner::simulate(plan, cluster));
  EXPECT_MENTIONS(text, "2 replicas of 1, 3 stages");
  EXPECT_MENTIONS(text, "micro-batches x rows of the replicas 4 x 2, 6 x 4");
  for (const char* row : {"replicas", "8 (0-7)", "2 (0-1)", "5 (2-6)", "1 (7-7)", "1 on b1"})
    EXPECT_MENTIONS(text, row);
}

TEST_F(PlanCommand, SummarisesLargePlansAndSaysWhatTheGpusAttain) {
  std::ofstream(file("fleet.json")) << R"({"tombolo_fleet": 1, "clusters": [
    {"name": "A", "hosts": 16, "devices": {"name": "H100", "count": 8}, "nics": {"name": "ConnectX-7 NDR"}}]})";
  ASSERT_EQ(run({"topo", "--fleet", file("fleet.json"), "--cluster-out", file("large.json")}), kExitOk)
      << err_;
  ASSERT_EQ(run({"plan", "--cluster", file("large.json"), "--framework", "megatron", "--strategy", "holmes",
                 "--model", "llama3-8b", "--batch", "256", "--tensor", "2", "--pipeline", "2", "--recompute",
                 "full"}),
            kExitOk)
      << err_;
  EXPECT_MENTIONS(out_, " TFLOP/s per GPU, MFU ");
  EXPECT_MENTIONS(out_, "2 tensor ranks");
  EXPECT_MENTIONS(out_, "64 on 8 hosts, A0 to A7");
  EXPECT_MENTIONS(out_, "over the fullest");
  EXPECT_MENTIONS(out_, "full recomputation: without, ");
  EXPECT_LT(std::ranges::count(out_, '\n'), 40) << "more than a screen:\n" << out_;
}

TEST_F(PlanCommand, MultipliesInWhatTheRanksGpusHave) {
  std::ofstream(file("fleet.json")) << R"({"tombolo_fleet": 1, "clusters": [
    {"name": "A", "hosts": 1, "devices": {"name": "H100", "count": 2}, "nics": {"name": "Ethernet 25G"}},
    {"name": "B", "hosts": 1, "devices": {"name": "V100", "count": 2}, "nics": {"name": "Ethernet 25G"}}],
    "between": [{"from": "A", "to": "B", "rate_gbps": 100}]})";
  ASSERT_EQ(run({"topo", "--fleet", file("fleet.json"), "--cluster-out", file("old.json")}), kExitOk) << err_;
  std::vector<std::string> words = {
      "plan",   "--cluster",  file("old.json"), "--batch", "8", "--model", "gpt3-6.7b,layers=2,context=1024",
      "--emit", "torchtitan", "--strategy",     "holmes"};
  EXPECT_NE(run(words), kExitOk);
  EXPECT_MENTIONS(err_, "torchtitan has no fp16");
  EXPECT_MENTIONS(err_, "of host B0");
  words.insert(words.end(), {"--order", "A0,A0", "--ranks", "2"});
  ASSERT_EQ(run(words), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "--training.mixed_precision_param bfloat16");
}

TEST_F(PlanCommand, RefusesForTheBundledTrainerWhatItCannotTrain) {
  EXPECT_EQ(run({"plan", "--cluster", file("cluster.json"), "--framework", "tombolo", "--model", "llama3-8b",
                 "--batch", "8"}),
            kExitBadUsage);
  EXPECT_MENTIONS(err_, "take --framework megatron");
}

TEST_F(PlanCommand, PlaysWhatIf) {
  ASSERT_EQ(run_plan({"--what-if", "lose b1", "--what-if", "link a b 10Gbit; speed a0 2"}), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "(as it is)");
  EXPECT_MENTIONS(out_, "cannot run");
  EXPECT_MENTIONS(out_, "link a b 10Gbit; speed a0 2");
  ASSERT_EQ(run_plan({"--json", "--what-if", "link a b 10Gbit"}), kExitOk) << err_;
  const Json list = Json::parse(out_);
  ASSERT_EQ(list.size(), 1U);
  EXPECT_GT(list[0].at("speedup").get<double>(), 1.0);
  // Options whose file would silently not be written are refused.
  EXPECT_NE(run_plan({"--what-if", "lose b1", "-o", file("not.json")}), kExitOk);
  ASSERT_EQ(run_plan({"--what-if", "lose b1", "--report", file("what_if.html")}), kExitOk) << err_;
  std::ifstream in(file("what_if.html"));
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  EXPECT_MENTIONS(page, "Planned anew:");
  EXPECT_MENTIONS(page, "lose b1");
  EXPECT_NE(run_plan({"--what-if", "lose b1", "--emit", "mpi"}), kExitOk);
  EXPECT_NE(run_plan({"--steps-left", "5"}), kExitOk);
  EXPECT_NE(run_plan({"--what-if", "lose nobody"}), kExitOk);
  EXPECT_MENTIONS(err_, "neither a host");
}

TEST_F(PlanCommand, MeasuresAJobOfSeveralRanksOnly) {
  EXPECT_EQ(run_plan({"--here"}), kExitBadUsage);
  EXPECT_MENTIONS(err_, "start it under torchrun, srun, mpirun or tombolo run");
}

TEST_F(PlanCommand, WritesAPlanThatSimulateReads) {
  ASSERT_EQ(run_plan({"--pipeline", "2", "--order", "interleaved", "-o", file("plan.json")}), kExitOk)
      << err_;
  EXPECT_MENTIONS(out_, "Plan: 2 stages x 2 replicas");
  EXPECT_MENTIONS(out_, "a0/fast");
  EXPECT_MENTIONS(out_, "strategy megatron");
  const auto plan = planner::Plan::load(file("plan.json"));
  EXPECT_EQ(plan.ranks[1].host, "b0");

  const std::vector<std::string> simulate = {"simulate",           "--plan",  file("plan.json"), "--cluster",
                                             file("cluster.json"), "--trace", file("trace.json")};
  ASSERT_EQ(run(simulate), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "FF");
  std::ifstream trace(file("trace.json"));
  EXPECT_GT(Json::parse(trace).at("traceEvents").size(), 100u);

  auto json = simulate;
  json.push_back("--json");
  ASSERT_EQ(run(json), kExitOk) << err_;
  const Json result = Json::parse(out_);
  EXPECT_DOUBLE_EQ(result.at("step_seconds").get<double>(), plan.prediction.step_seconds);
  EXPECT_EQ(result.at("ranks").size(), 4u);
}

TEST_F(PlanCommand, PrintsThePlanFileAsJson) {
  ASSERT_EQ(run_plan({"--strategy", "megatron", "--routing", "shared", "--json"}), kExitOk) << err_;
  const Json plan = Json::parse(out_);
  EXPECT_EQ(plan.at("strategy"), "megatron");
  EXPECT_EQ(plan.at("routing"), "shared");
}

TEST_F(PlanCommand, LeavesAttentionUnfusedWhereAsked) {
  const std::vector<std::string> fixed{"--framework", "megatron", "--pipeline", "2", "--recompute", "none"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), fixed.begin(), fixed.end());
    return run_plan(more);
  };
  ASSERT_EQ(with({"--json"}), kExitOk) << err_;
  const Json fused = Json::parse(out_);
  EXPECT_TRUE(fused.at("job").value("fused_attention", true));
  ASSERT_EQ(with({"--json", "--unfused-attention"}), kExitOk) << err_;
  const Json unfused = Json::parse(out_);
  EXPECT_FALSE(unfused.at("job").value("fused_attention", true));
  const auto most = [](const Json& plan) {
    double bytes = 0;
    for (const Json& memory : plan.at("prediction").at("memory"))
      bytes = std::max(bytes, memory.at("total").get<double>());
    return bytes;
  };
  EXPECT_GT(most(unfused), most(fused)) << "weights are held";
  ASSERT_EQ(with({"--unfused-attention", "--emit", "megatron"}), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "--attention-backend unfused");
  ASSERT_EQ(run_plan({"--pipeline", "2", "--unfused-attention", "--json"}), kExitOk) << err_;
  EXPECT_EQ(Json::parse(out_).at("job").at("framework"), "megatron")
      << "the bundled trainer has no such choice";
  EXPECT_NE(run_plan({"--framework", "torchtitan", "--pipeline", "2", "--unfused-attention"}), kExitOk);
  EXPECT_MENTIONS(err_, "torchtitan has no argument that leaves attention unfused");
}

TEST_F(PlanCommand, PlansForGpusWhereTheClusterHasThemAlone) {
  auto cluster = topology::ClusterFile::load(file("cluster.json"));
  const auto job = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"--json", "--pipeline", "2"};
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_EQ(run_plan(all), kExitOk) << err_;
    return Json::parse(out_);
  };
  EXPECT_FALSE(job({}).at("job").contains("device")) << "these are CPUs";
  for (auto& host : cluster.hosts)
    for (auto& device : host.devices) device.kind = topology::DeviceKind::kGpu;
  cluster.save(file("cluster.json"));
  const Json single = job({}), half = job({"--dtype", "bf16", "--moments", "bf16"});
  EXPECT_EQ(single.at("job").at("device"), "cuda");
  EXPECT_FALSE(single.at("job").contains("moments"));
  EXPECT_EQ(half.at("model").at("bytes_per_value"), 2);
  EXPECT_EQ(half.at("job").at("moments"), "bf16");
  const auto optimizer = [](const Json& plan) {
    return plan.at("prediction").at("memory").at(0).at("optimizer").get<double>();
  };
  EXPECT_NEAR(optimizer(half) / optimizer(single), 0.5, 0.01);
  EXPECT_EQ(job({"--recompute", "full"}).at("job").at("recompute"), "full");
  EXPECT_FALSE(job({"--device", "cpu"}).at("job").contains("device"));
  ASSERT_EQ(run_plan({"--pipeline", "2", "--dtype", "bf16", "--recompute", "full"}), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "recomputing full; for device cuda in bf16");
  refuses({"plan", "--cluster", file("cluster.json"), "--model", "layers=8,hidden=128,heads=4,context=128",
           "--batch", "8", "--device", "cpu", "--dtype", "bf16"},
          {"--dtype bf16 with --device cpu"});
  refuses({"plan", "--cluster", file("cluster.json"), "--model", "layers=8,hidden=128,heads=4,context=128",
           "--batch", "8", "--framework", "megatron", "--device", "cuda"},
          {"--device and --moments are the bundled trainer's"});
}

TEST_F(PlanCommand, RecomputesWhereNothingElseFitsAndSaysSo) {
  auto cluster = topology::ClusterFile::load(file("cluster.json"));
  const auto with_memory = [&](double bytes) {
    for (auto& host : cluster.hosts)
      for (auto& device : host.devices) {
        device.kind = topology::DeviceKind::kGpu;
        device.memory_bytes = bytes;
      }
    cluster.save(file("cluster.json"));
  };
  const std::vector<std::string> fixed{"--pipeline", "2",  "--micro-batch",  "8", "--reserve",
                                       "0",          "-o", file("plan.json")};
  with_memory(8e10);
  ASSERT_EQ(run_plan(fixed), kExitOk) << err_;
  std::uint64_t most = 0;
  const auto roomy = planner::Plan::load(file("plan.json"));
  EXPECT_EQ(roomy.job.recompute, planner::Recompute::kNone);
  for (const auto& memory : roomy.prediction.memory) most = std::max(most, memory.total);
  with_memory(0.7 * static_cast<double>(most));
  ASSERT_EQ(run_plan(fixed), kExitOk) << err_;
  const auto tight = planner::Plan::load(file("plan.json"));
  EXPECT_EQ(tight.job.recompute, planner::Recompute::kFull);
  EXPECT_MENTIONS(out_, "recomputing full");
  // Where it may not, the error says what would help.
  auto forbidden = fixed;
  forbidden.insert(forbidden.end(), {"--recompute", "none", "--data", "2"});
  EXPECT_EQ(run_plan(forbidden), kExitBadUsage);
  EXPECT_MENTIONS(err_, "no plan fits in memory");
}

TEST_F(PlanCommand, FlagsOverrideTheModel) {
  ASSERT_EQ(run_plan({"--layers", "6", "--width", "64", "--context", "32", "--json"}), kExitOk) << err_;
  const Json model = Json::parse(out_).at("model");
  EXPECT_EQ(model.at("layers"), 6);
  EXPECT_EQ(model.at("hidden"), 64);
  EXPECT_EQ(model.at("context"), 32);
}

TEST_F(PlanCommand, EmitsMegatronsArguments) {
  ASSERT_EQ(run_plan({"--pipeline", "2", "--emit", "megatron"}), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "torchrun");
  EXPECT_MENTIONS(out_, "--pipeline-model-parallel-size 2");
}

TEST_F(PlanCommand, BadInputIsNamedAndExitsWithTwo) {
  EXPECT_EQ(run({"plan", "--cluster", file("none.json"), "--batch", "8", "--layers", "2", "--width", "8",
                 "--heads", "2", "--context", "8"}),
            kExitBadUsage);
  EXPECT_MENTIONS(err_, "none.json");
  EXPECT_EQ(run({"simulate", "--plan", file("none.json")}), kExitBadUsage);
  EXPECT_EQ(run_plan({"--pipeline", "3"}), kExitBadUsage);
  EXPECT_MENTIONS(err_, "does not divide");
  EXPECT_EQ(run_plan({"--strategy", "best"}), kExitBadUsage);
  EXPECT_EQ(run({"plan", "--cluster", file("cluster.json"), "--batch", "8"}), kExitBadUsage);
  EXPECT_MENTIONS(err_, "layers");
  std::ofstream(file("broken.json")) << "{\"tombolo_plan\": 1,\n \"routing\": \"sideways\"}";
  EXPECT_EQ(run({"simulate", "--plan", file("broken.json"), "--cluster", file("cluster.json")}),
            kExitBadUsage);
  EXPECT_MENTIONS(err_, "broken.json:2: routing");
}

// Runs the emitted script itself, with a torchrun that only prints its arguments.

TEST_F(PlanCommand, TheEmittedScriptGivesEveryNodeTheClusterFileAndItsName) {
  ASSERT_EQ(run_plan({"--pipeline", "2", "--data", "2", "--emit", "megatron"}), kExitOk) << err_;
  std::ofstream(file("launch.sh")) << out_;
  std::ofstream(file("torchrun")) << "#!/bin/sh\necho \"$TOMBOLO_CLUSTER $TOMBOLO_HOST $NCCL_NET\"\n";
  std::filesystem::permissions(file("torchrun"), std::filesystem::perms::owner_all);
  auto launched = [&](const std::string& variables) {
    const std::string command =
        fmt::format("env -u TOMBOLO_HOST -u TOMBOLO_CLUSTER PATH={}:/usr/bin:/bin {} sh {} x.py 2>&1",
                    folder_.path().string(), variables, file("launch.sh"));
    std::FILE* pipe = ::popen(command.c_str(), "r");
    std::string text(1000, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), pipe));
    return fmt::format("{}{}", text, ::pclose(pipe) == 0 ? "" : "failed");
  };
  EXPECT_EQ(launched("NODE_RANK=2"), file("cluster.json") + " b0 Tombolo\n");
  EXPECT_EQ(launched("NODE_RANK=1 TOMBOLO_HOST=b1"), file("cluster.json") + " b1 Tombolo\n");
  const std::string missing = launched("NODE_RANK=1 TOMBOLO_CLUSTER=/no/such/file");
  EXPECT_NE(missing.find("cannot read /no/such/file"), std::string::npos) << missing;
  EXPECT_TRUE(missing.ends_with("failed")) << missing;
}

}  // namespace
}  // namespace tombolo::tools
