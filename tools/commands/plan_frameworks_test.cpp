// What tombolo plan chooses of what a framework can do: recomputation, sharding, experts, types.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "planner/testing/testing.h"
#include "tools/commands/testing_plan.h"

namespace tombolo::tools {
namespace {

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

}  // namespace
}  // namespace tombolo::tools
