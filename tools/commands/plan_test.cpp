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

TEST_F(PlanCommand, GuessesTheFrameworkAndSaysSo) {
  const auto framework = [&](const std::string& model, std::vector<std::string> more,
                             const std::string& note) {
    more.insert(more.begin(), {"plan", "--cluster", file("cluster.json"), "--batch", "32", "--json",
                               "--model", "layers=8,hidden=128,heads=4,context=128,vocabulary=256" + model});
    EXPECT_EQ(run(more), kExitOk) << err_;
    const Json plan = Json::parse(out_);
    const auto notes = plan.at("notes").dump();
    if (note.empty()) {
      EXPECT_EQ(notes.find("--framework takes another"), std::string::npos) << notes;
    } else {
      EXPECT_MENTIONS(notes, note + "; --framework takes another");
    }
    return plan.at("job").value("framework", "tombolo");
  };
  EXPECT_EQ(framework("", {}, "for the bundled trainer, which trains models of GPT-2's shape"), "tombolo");
  EXPECT_EQ(framework("", {"--framework", "tombolo"}, ""), "tombolo");
  EXPECT_EQ(framework("", {"--shard-optimizer"}, "since the bundled trainer lacks what is asked for"),
            "megatron");
  EXPECT_EQ(framework(",gated=yes", {}, "since the bundled trainer has GPT-2's shape alone"), "megatron");
}

TEST_F(PlanCommand, TakesLargeModelsOnGpusForMegatrons) {
  auto cluster = topology::ClusterFile::load(file("cluster.json"));
  for (auto& host : cluster.hosts) {
    host.device_bytes_per_second = 3.6e11;
    for (auto& device : host.devices) {
      device.kind = topology::DeviceKind::kGpu;
      device.name = "H100-SXM5-80GB";
      device.memory_bytes = 8.5e10;
    }
    host.devices.resize(2, host.devices.front());
  }
  cluster.save(file("cluster.json"));
  const auto planned = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", "--cluster", file("cluster.json"), "--batch", "32", "--model",
                               "layers=24,hidden=2048,heads=16,context=128,vocabulary=50257"});
    return run(more);
  };
  ASSERT_EQ(planned({"--within", "0"}), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "\nFor Megatron-LM, since the bundled trainer, which could train this model,");
  EXPECT_MENTIONS(out_, "--framework takes another\nPredicted: ");
  EXPECT_EQ(out_.find("- for Megatron-LM"), std::string::npos);
  ASSERT_EQ(planned({"--device", "cuda"}), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "\nFor the bundled trainer, which trains models of GPT-2's shape;");
  ASSERT_EQ(planned({"--framework", "megatron", "--tensor", "2", "--pipeline", "2"}), kExitOk) << err_;
  EXPECT_EQ(out_.find("--framework takes another"), std::string::npos);
  EXPECT_MENTIONS(out_,
                  "they exchange beside matrix products: without (--no-overlap-tensor), a step would take");
  ASSERT_EQ(planned({"--framework", "megatron", "--tensor", "2", "--pipeline", "2", "--no-overlap-tensor"}),
            kExitOk)
      << err_;
  EXPECT_MENTIONS(out_,
                  "they do not exchange beside matrix products, which takes Transformer Engine and NVLink");
  EXPECT_MENTIONS(out_, "; with --overlap-tensor a step would take");
}

TEST_F(PlanCommand, SaysWhoseFrameworkWasGuessedWhereNothingFits) {
  auto cluster = topology::ClusterFile::load(file("cluster.json"));
  for (auto& host : cluster.hosts)
    for (auto& device : host.devices) device.memory_bytes = 1e5;
  cluster.save(file("cluster.json"));
  EXPECT_NE(run_plan({}), kExitOk);
  EXPECT_MENTIONS(err_, "no plan fits in memory");
  EXPECT_MENTIONS(
      err_,
      "This was planned for the bundled trainer, which trains models of GPT-2's shape; --framework "
      "takes another, such as --framework megatron");
  EXPECT_NE(run_plan({"--framework", "tombolo"}), kExitOk);
  EXPECT_EQ(err_.find("--framework takes another"), std::string::npos);
}

TEST_F(PlanCommand, CountsTheLayersThatAreComputedAgain) {
  const auto job = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--framework", "megatron", "--tensor", "1", "--pipeline", "2", "--json"});
    EXPECT_EQ(run_plan(more), kExitOk) << err_;
    return Json::parse(out_).at("job");
  };
  EXPECT_EQ(job({"--recompute-layers", "2"}).value("recompute_layers", 0), 2);
  EXPECT_EQ(job({"--recompute-layers", "2"}).value("recompute", "none"), "full");
  EXPECT_EQ(job({"--recompute", "full"}).value("recompute_layers", 0), 0);
  EXPECT_NE(run_plan({"--framework", "megatron", "--recompute", "none", "--recompute-layers", "2"}), kExitOk);
  EXPECT_MENTIONS(err_, "--recompute-layers 2 counts whole layers");
  EXPECT_NE(run_plan({"--framework", "torchtitan", "--recompute-layers", "2"}), kExitOk);
  EXPECT_MENTIONS(err_, "torchtitan has no full recomputation of some layers");
}

TEST_F(PlanCommand, TurnsOnWhatTheFrameworkHasUnlessToldOtherwise) {
  auto cluster = topology::ClusterFile::load(file("cluster.json"));
  for (auto& host : cluster.hosts) host.devices.resize(2, host.devices.front());
  cluster.save(file("cluster.json"));
  const auto job = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--framework", "megatron", "--tensor", "2", "--pipeline", "1", "--json"});
    EXPECT_EQ(run_plan(more), kExitOk) << err_;
    return Json::parse(out_).at("job");
  };
  EXPECT_TRUE(job({}).value("sequence_parallel", false));
  EXPECT_FALSE(job({"--no-sequence-parallel"}).value("sequence_parallel", false));
  EXPECT_EQ(job({"--no-shard-optimizer"}).value("sharding", "none"), "none");
  const Json sharded = job({"--shard-optimizer"});
  EXPECT_EQ(sharded.value("sharding", "none"), "optimizer");
  EXPECT_TRUE(sharded.value("overlap_parameters", false));
  EXPECT_FALSE(job({"--shard-optimizer", "--no-overlap-parameters"}).value("overlap_parameters", false));
  // What is left open may be sharded: a gather that hides makes a step shorter.
  const auto seconds = [&](const std::string& flag) {
    std::vector<std::string> all{"--framework", "megatron", "--tensor", "2", "--pipeline",
                                 "1",           "--json",   "--within", "0"};
    if (!flag.empty()) all.push_back(flag);
    EXPECT_EQ(run_plan(all), kExitOk) << err_;
    return Json::parse(out_).at("prediction").at("step_seconds").get<double>();
  };
  EXPECT_LT(seconds("--shard-optimizer"), seconds("--no-shard-optimizer"));
  EXPECT_EQ(seconds(""), seconds("--shard-optimizer"));
}

TEST_F(PlanCommand, DividesRowsAmongReplicas) {
  auto cluster = topology::ClusterFile::load(file("cluster.json"));
  for (auto& host : cluster.hosts)
    for (auto& device : host.devices) device.kind = topology::DeviceKind::kGpu;
  cluster.save(file("cluster.json"));
  const auto plan = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"plan", "--cluster", file("cluster.json"), "--batch", "8", "--pipeline", "1", "--data", "4",
                 "--model", "layers=8,hidden=128,heads=4,context=4096,vocabulary=256,gated=yes,bytes=2"});
    return run(more) == kExitOk ? out_ : err_;
  };
  const Json whole = Json::parse(plan({"--json"})),
             halves = Json::parse(plan({"--json", "--context-parallel", "2"}));
  EXPECT_EQ(whole.at("job").value("context_parallel", 1), 1) << "as few as fit";
  EXPECT_EQ(halves.at("job").at("context_parallel"), 2);
  EXPECT_EQ(halves.at("job").at("context_exchange"), "ring");
  EXPECT_EQ(Json::parse(plan({"--json", "--context-parallel", "2", "--context-exchange", "all-to-all"}))
                .at("job")
                .at("context_exchange"),
            "all-to-all");
  const std::string text = plan({"--context-parallel", "2"});
  EXPECT_MENTIONS(text, ", 2 replicas divide each row (ring)");
  EXPECT_MENTIONS(text, "2 replicas divide each row's tokens (context parallelism, ring)");
  EXPECT_MENTIONS(plan({"--context-parallel", "2", "--emit", "megatron"}),
                  "--context-parallel-size 2 --cp-comm-type p2p");
  const std::string titan = plan({"--context-parallel", "2", "--framework", "torchtitan", "--emit",
                                  "torchtitan", "--sharding", "parameters"});
  EXPECT_MENTIONS(titan, "--parallelism.data_parallel_shard_degree 2");
  EXPECT_MENTIONS(titan, "--parallelism.context_parallel_degree 2");
  EXPECT_MENTIONS(plan({"--context-parallel", "2", "--framework", "deepspeed"}),
                  "DeepSpeed has no context parallelism");
}

TEST_F(PlanCommand, DividesExpertsAmongReplicas) {
  auto cluster = topology::ClusterFile::load(file("cluster.json"));
  for (auto& host : cluster.hosts)
    for (auto& device : host.devices) device.kind = topology::DeviceKind::kGpu;
  cluster.save(file("cluster.json"));
  const auto plan = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"plan", "--cluster", file("cluster.json"), "--batch", "8", "--pipeline", "1", "--data", "4",
                 "--model",
                 "layers=4,hidden=128,heads=4,context=128,vocabulary=256,biases=no,bytes=2,experts=8,"
                 "experts_per_token=2,expert_feed_forward=256"});
    return run(more) == kExitOk ? out_ : err_;
  };
  const Json divided = Json::parse(plan({"--json", "--expert-parallel", "4"}));
  EXPECT_EQ(divided.at("job").at("expert_parallel"), 4);
  EXPECT_EQ(divided.at("job").at("framework"), "megatron") << "the bundled trainer has no mixtures";
  const std::string text = plan({"--expert-parallel", "2"});
  EXPECT_MENTIONS(text, ", 2 replicas divide each layer's experts");
  EXPECT_MENTIONS(
      text, "2 replicas divide the 8 experts of a layer, 4 on each (expert parallelism): with all on each, ");
  EXPECT_MENTIONS(plan({"--expert-parallel", "2", "--emit", "megatron"}),
                  "--expert-model-parallel-size 2 --expert-tensor-parallel-size 1");
  EXPECT_MENTIONS(plan({"--expert-parallel", "2", "--emit", "nemo"}),
                  "trainer.strategy.expert_model_parallel_size=2");
  EXPECT_MENTIONS(plan({"--expert-parallel", "2", "--framework", "torchtitan", "--sharding", "parameters",
                        "--emit", "torchtitan"}),
                  "--parallelism.expert_parallel_degree 2");
  EXPECT_MENTIONS(plan({"--expert-parallel", "2", "--framework", "deepspeed"}),
                  "DeepSpeed has no expert parallelism");
  EXPECT_MENTIONS(plan({"--expert-parallel", "3"}), "8 experts do not divide among 3 replicas");
}

TEST_F(PlanCommand, SharesParametersWhereNothingElseFits) {
  auto cluster = topology::ClusterFile::load(file("cluster.json"));
  const auto plan = [&](double memory, std::vector<std::string> more) {
    for (auto& host : cluster.hosts)
      for (auto& device : host.devices) {
        device.kind = topology::DeviceKind::kGpu;
        device.memory_bytes = memory;
      }
    cluster.save(file("cluster.json"));
    more.insert(more.begin(), {"plan", "--cluster", file("cluster.json"), "--batch", "32", "--framework",
                               "torchtitan", "--json", "--reserve", "0", "--model",
                               "layers=64,hidden=128,heads=4,context=32,vocabulary=256,gated=yes,bytes=2"});
    return run(more) == kExitOk ? Json::parse(out_).at("job").value("sharding", "none") : err_;
  };
  // 64 layers of 0.26 million parameters: 18 bytes of each on one GPU, or a quarter of 16.
  EXPECT_EQ(plan(110e6, {"--pipeline", "1", "--tensor", "1"}), "parameters");
  EXPECT_EQ(plan(110e6, {"--sharding", "parameters", "--data", "4"}), "parameters");
  EXPECT_EQ(plan(1e9, {"--pipeline", "2", "--sharding", "gradients"}), "gradients");
  EXPECT_MENTIONS(plan(1e9, {"--pipeline", "2", "--sharding", "parameters"}),
                  "torchtitan has no sharding of parameters with several stages");
  EXPECT_MENTIONS(plan(1e9, {"--sharding", "gradients", "--shard-optimizer"}), "--shard-optimizer");
}

TEST_F(PlanCommand, MultipliesInFp16WhereAGpuHasNoBf16) {
  auto cluster = topology::ClusterFile::load(file("cluster.json"));
  const auto precision = [&](const char* device) {
    for (auto& host : cluster.hosts) host.devices[0].kind = topology::DeviceKind::kGpu;
    cluster.hosts[1].devices[0].name = device;
    cluster.save(file("cluster.json"));
    EXPECT_EQ(run({"plan", "--cluster", file("cluster.json"), "--batch", "32", "--framework", "megatron",
                   "--json", "--model", "layers=8,hidden=128,heads=4,context=128,vocabulary=256,bytes=2"}),
              kExitOk)
        << err_;
    return Json::parse(out_).at("job").value("precision", "bf16");
  };
  EXPECT_EQ(precision("V100-SXM2-32GB"), "fp16");
  EXPECT_EQ(precision("A100-SXM4-80GB"), "bf16");
}

TEST_F(PlanCommand, PlansWhatNoArgumentSaysAndWritesNoScriptForIt) {
  std::vector<std::string> peculiar{
      "plan",     "--cluster", file("cluster.json"),
      "--batch",  "32",        "--framework",
      "megatron", "--model",   "layers=8,hidden=128,heads=4,context=128,vocabulary=256,relu=yes"};
  ASSERT_EQ(run(peculiar), kExitOk) << err_;
  const auto said = out_.find("\nMegatron-LM has no argument for MLPs through ReLU; a step is timed without");
  EXPECT_LT(said, out_.find("\nWhy:\n")) << out_;
  peculiar.insert(peculiar.end(), {"--emit", "megatron"});
  EXPECT_NE(run(peculiar), kExitOk);
  EXPECT_MENTIONS(err_, "a script is written for --model ...,relu=no");
  peculiar[8] += ",relu=no";
  EXPECT_EQ(run(peculiar), kExitOk) << err_;
  EXPECT_NE(run({"plan", "--cluster", file("cluster.json"), "--batch", "32", "--framework", "tombolo",
                 "--model", "gpt2,relu=yes,window=256"}),
            kExitOk);
  EXPECT_MENTIONS(err_, "take --model ...,relu=no,window=no, or --framework megatron");
}

TEST_F(PlanCommand, LooksAtTheDevicesOfTheRanksHostsAlone) {
  have_gpus("A100-SXM4-80GB");
  auto cluster = topology::ClusterFile::load(file("cluster.json"));
  for (auto& host : cluster.hosts)
    if (host.name.starts_with('b'))
      for (auto& one : host.devices) {
        one.kind = topology::DeviceKind::kCpu;
        one.name = "a CPU";
      }
  cluster.save(file("cluster.json"));
  const auto device = [&](std::vector<std::string> more) {
    more.emplace_back("--json");
    EXPECT_EQ(run_plan(more), kExitOk) << err_;
    return Json::parse(out_).at("job").value("device", "cpu");
  };
  EXPECT_EQ(device({}), "cpu");
  EXPECT_EQ(device({"-n", "2"}), "cuda") << "no rank is on a CPU";
}

TEST_F(PlanCommand, TakesTheConstantsOfTheNamedSoftware) {
  const auto plan = [&](const char* device, std::vector<std::string> more) {
    have_gpus(device);
    more.insert(more.begin(),
                {"plan", "--cluster", file("cluster.json"), "--batch", "32", "--pipeline", "2", "--model",
                 "layers=8,hidden=4096,heads=32,context=512,vocabulary=256,gated=yes"});
    return run(more);
  };
  const auto seconds = [](const Json& one) { return one.at("prediction").at("step_seconds").get<double>(); };
  ASSERT_EQ(plan("H100-SXM5-80GB", {"--json"}), kExitOk) << err_;
  const Json usual = Json::parse(out_);
  EXPECT_FALSE(usual.at("job").contains("software"));
  ASSERT_EQ(plan("H100-SXM5-80GB", {"--software", "nanotron", "-o", file("plan.json")}), kExitOk) << err_;
  const auto named = planner::Plan::load(file("plan.json"));
  EXPECT_EQ(named.job.software, "nanotron");
  EXPECT_EQ(named.job.framework, planner::Framework::kMegatron);
  EXPECT_NE(named.prediction.step_seconds, seconds(usual));
  ASSERT_EQ(run({"simulate", "--plan", file("plan.json"), "--cluster", file("cluster.json"), "--json"}),
            kExitOk)
      << err_;
  EXPECT_NEAR(Json::parse(out_).at("step_seconds").get<double>(), named.prediction.step_seconds,
              1e-9 * named.prediction.step_seconds)
      << "the plan file says whose constants count";
  EXPECT_NE(plan("A100-SXM4-80GB", {"--software", "nanotron"}), kExitOk);
  EXPECT_MENTIONS(err_, "host a0 has GPUs A100-SXM4-80GB, of which the library has no constants of nanotron");
  EXPECT_NE(plan("H100-SXM5-80GB", {"--software", "nano"}), kExitOk);
  EXPECT_MENTIONS(err_, "megatron, nanotron, nemo");
  EXPECT_NE(plan("H100-SXM5-80GB", {"--framework", "tombolo", "--software", "nanotron"}), kExitOk);
}

TEST_F(PlanCommand, PlansInFp8WhereTheGpusHaveIt) {
  const auto plan = [&](const char* device, const std::string& dtype, std::vector<std::string> more) {
    have_gpus(device);
    more.insert(more.begin(),
                {"plan", "--cluster", file("cluster.json"), "--batch", "32", "--dtype", dtype, "--pipeline",
                 "1", "--model", "layers=8,hidden=4096,heads=32,context=512,vocabulary=256,gated=yes"});
    return run(more);
  };
  ASSERT_EQ(plan("H100-SXM5-80GB", "fp8-hybrid", {"--json"}), kExitOk) << err_;
  const Json fp8 = Json::parse(out_);
  EXPECT_EQ(fp8.at("job").at("precision"), "fp8-hybrid");
  EXPECT_EQ(fp8.at("model").at("bytes_per_value"), 2);
  ASSERT_EQ(plan("H100-SXM5-80GB", "bf16", {"--json"}), kExitOk) << err_;
  const auto seconds = [](const Json& one) { return one.at("prediction").at("step_seconds").get<double>(); };
  EXPECT_LT(seconds(fp8), seconds(Json::parse(out_)));
  ASSERT_EQ(plan("H100-SXM5-80GB", "fp8-hybrid", {}), kExitOk) << err_;
  EXPECT_MENTIONS(out_, ", products in fp8-hybrid");
  EXPECT_MENTIONS(out_, "products of matrices in fp8-hybrid: in bf16 a step would take");
  EXPECT_NE(plan("A100-SXM4-80GB", "fp8-hybrid", {"--json"}), kExitOk);
  EXPECT_MENTIONS(err_, "no fp8 peak of device");
}

TEST_F(PlanCommand, TakesTheFastestWhereNothingElseIsToCount) {
  const auto plan = [&](const std::string& percent) {
    EXPECT_EQ(run_plan({"--within", percent, "--json"}), kExitOk) << err_;
    return planner::Plan::parse(JsonDocument::parse(out_, "stdout"));
  };
  const planner::Plan fastest = plan("0"), robust = plan("20");
  EXPECT_FALSE(fastest.choice);
  ASSERT_TRUE(robust.choice);
  EXPECT_DOUBLE_EQ(robust.choice->tolerance, 0.2);
  EXPECT_GT(robust.choice->cases, 0);
  EXPECT_FALSE(robust.choice->next.empty());
  EXPECT_GE(robust.prediction.step_seconds, fastest.prediction.step_seconds * (1 - 1e-9));
  EXPECT_LE(robust.prediction.step_seconds, 1.2 * fastest.prediction.step_seconds);
  EXPECT_NE(run_plan({"--within", "60"}), kExitOk);
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
