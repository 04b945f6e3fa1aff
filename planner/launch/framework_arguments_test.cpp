#include "planner/launch/framework_arguments.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "planner/launch/launch.h"
#include "planner/model/model_library.h"
#include "planner/plan/inexpressible.h"
#include "planner/testing/testing.h"
#include "planner/testing/testing_launch.h"
#include "planner/testing/testing_names.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::names_of;
using testing::part_of;
using testing::simple_plan;
using testing::small_model;
using testing::unknown_options;

topology::ClusterFile cluster_of(const std::string& device) {
  auto cluster = make_cluster({{"a", 2, 4, topology::NicKind::kInfiniBand, 1e9}}, 1e7);
  for (auto& host : cluster.hosts)
    for (auto& one : host.devices) {
      one.kind = topology::DeviceKind::kGpu;
      one.name = device;
    }
  return cluster;
}

Model llama(int layers) {
  Model model = small_model(layers);
  model.kv_heads = 2;
  model.feed_forward = 176;
  model.gated = true;
  model.learned_positions = model.tied_embeddings = model.biases = false;
  model.bytes_per_value = 2;
  model.rotary_base = 500000;
  return model;
}

/// Two stages of two replicas of two tensor ranks, a stage on each host.
Plan tensor_plan(const Model& model, Framework framework) {
  Plan plan = simple_plan(model, {"a0", "a0", "a1", "a1"}, 2, 2, 4);
  plan.job.framework = framework;
  plan.job.tensor = 2;
  plan.ranks.clear();
  for (int rank = 0; rank < 8; ++rank)
    plan.ranks.push_back({rank < 4 ? "a0" : "a1", rank % 4, rank / 4, rank / 2 % 2, rank % 2});
  plan.job.sequence_parallel = traits(framework).tensor_divides_sequence;
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages) stage.tensor = 2;
  return plan;
}

/// Plans that differ in every choice that a framework may have arguments for.
std::vector<Plan> plans_with_every_choice(Framework framework) {
  std::vector<Plan> plans;
  const auto add = [&](const Model& model, auto change) {
    plans.push_back(tensor_plan(model, framework));
    change(plans.back());
  };
  add(small_model(8), [](Plan&) {});
  add(llama(8), [](Plan& plan) {
    plan.job.sequence_parallel = plan.job.overlap_tensor = plan.job.overlap_parameters = true;
    plan.job.sharding =
        plan.job.framework == Framework::kTorchTitan ? Sharding::kGradients : Sharding::kOptimizer;
    plan.job.recompute = Recompute::kSelective;
  });
  add(llama(8), [](Plan& plan) {
    plan.job.context_parallel = 2;
    plan.job.recompute = Recompute::kFull;
    plan.job.model.head_width = 32;
  });
  if (traits(framework).unfused_attention)
    add(llama(8), [](Plan& plan) { plan.job.fused_attention = false; });
  add(llama(9), [](Plan& plan) { plan.pipelines = equal_pipelines(plan.job, {{0, 5, 2}, {5, 4, 2}}); });
  add(llama(8), [](Plan& plan) {
    plan.job.schedule = Schedule::kInterleaved;
    plan.job.chunks = 2;
    plan.pipelines = equal_pipelines(plan.job, {{0, 2, 2}, {2, 2, 2}, {4, 2, 2}, {6, 2, 2}});
  });
  if (traits(framework).some_layers_again)
    add(llama(8), [](Plan& plan) {
      plan.job.recompute = Recompute::kFull;
      plan.job.recompute_layers = 3;
    });
  for (const Precision precision :
       {Precision::kFp32, Precision::kTf32, Precision::kBf16, Precision::kFp8Hybrid, Precision::kFp8E4m3}) {
    const auto formats = traits(framework).fp8_formats;
    if (is_fp8(precision) && std::ranges::find(formats, precision) == formats.end()) continue;
    add(llama(8), [&](Plan& plan) {
      plan.job.precision = precision;
      plan.job.fp32_gradients = precision == Precision::kBf16;
    });
  }
  if (traits(framework).latent_attention)
    add(llama(8), [](Plan& plan) {
      plan.job.model.kv_heads = 0;
      plan.job.model.head_width = 16;
      plan.job.model.kv_rank = 32;
      plan.job.model.query_rank = 48;
      plan.job.model.rotary_width = 8;
      plan.job.model.check();
    });
  add(llama(8), [](Plan& plan) {
    plan.job.sequence_parallel = true;
    plan.job.sharding =
        plan.job.framework == Framework::kTorchTitan ? Sharding::kGradients : Sharding::kOptimizer;
    plan.job.model.experts = 8;
    plan.job.model.experts_per_token = 2;
    plan.job.model.expert_feed_forward = 96;
    plan.job.model.shared_feed_forward = 48;
    plan.job.model.moe_every = 2;
    plan.job.expert_parallel = 2;
  });
  return plans;
}

/// What of a torchrun script the framework's program gets.
std::string program_arguments(const std::string& script) {
  const std::string called = part_of(script, "\"$@\"", "\n\n");
  return called.substr(0, called.find("${groups"));
}

class NamedArguments : public ::testing::TestWithParam<Framework> {};

TEST_P(NamedArguments, AreThoseOfTheFrameworksRelease) {
  const std::string name(framework_name(GetParam()));
  const auto cluster = cluster_of("H100-SXM5-80GB");
  ASSERT_FALSE(names_of(name).empty());
  for (const Plan& plan : plans_with_every_choice(GetParam())) {
    for (const Launcher launcher :
         {*launcher_from_name(name), Launcher::kTorchrun, Launcher::kSlurm, Launcher::kMpi}) {
      const std::string script = emit(launcher, plan, cluster, "/cluster.json");
      const std::string arguments = program_arguments(script);
      EXPECT_FALSE(testing::options_in(arguments).empty()) << script;
      EXPECT_EQ(unknown_options(arguments, name), "") << script;
    }
    const std::string torchrun = emit(Launcher::kTorchrun, plan, cluster, "/cluster.json");
    EXPECT_EQ(unknown_options(part_of(torchrun, "\nexec torchrun ", "\"$@\""), "torchrun"), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Frameworks, NamedArguments,
                         ::testing::Values(Framework::kMegatron, Framework::kNeMo, Framework::kTorchTitan),
                         [](const auto& one) { return std::string(framework_name(one.param)); });

TEST(NamedArgumentsOf, LaunchersAndOfNcclAreThoseOfTheirReleases) {
  const auto cluster = cluster_of("H100-SXM5-80GB");
  const Plan plan = tensor_plan(small_model(8), Framework::kMegatron);
  const std::string slurm = emit(Launcher::kSlurm, plan, cluster, "/cluster.json");
  EXPECT_EQ(unknown_options(part_of(slurm, "#!/bin/sh\n", "# Slurm"), "slurm"), "");
  EXPECT_EQ(unknown_options(part_of(slurm, "\nsrun ", "sh -c"), "slurm"), "");
  const std::string mpi = emit(Launcher::kMpi, plan, cluster, "/cluster.json");
  EXPECT_EQ(unknown_options(part_of(mpi, "\nmpirun ", "sh -c"), "mpirun"), "");
}

TEST(NamedArgumentsOf, DeepSpeedsLauncherAndConfigurationAreThoseOfItsRelease) {
  const std::set<std::string> names = names_of("deepspeed");
  for (Plan plan : plans_with_every_choice(Framework::kDeepSpeed)) {
    const Job& job = plan.job;
    if (!inexpressible(plan, Framework::kDeepSpeed).empty() || job.multiplies_in() >= Precision::kFp8Hybrid)
      continue;
    const std::string script =
        emit(Launcher::kDeepSpeed, plan, cluster_of("H100-SXM5-80GB"), "/cluster.json");
    const std::string called = "\ndeepspeed " + part_of(script, "\ndeepspeed ", "\n\n");
    EXPECT_EQ(unknown_options(part_of(called, "\ndeepspeed ", "\"$@\""), "deepspeed"), "");
    const Json config = Json::parse(part_of(script, "config.json\" <<'END'\n", "\nEND"));
    for (const auto& [key, value] : config.items()) {
      EXPECT_TRUE(names.contains(key)) << key;
      if (!value.is_object()) continue;
      for (const auto& [inner, unused] : value.items())
        EXPECT_TRUE(names.contains(fmt::format("{}.{}", key, inner))) << key << '.' << inner;
    }
  }
}

TEST(FrameworkArguments, GivesMegatronWhatGoesWithAPlansTraits) {
  Plan plan = tensor_plan(llama(8), Framework::kMegatron);
  plan.job.sharding = Sharding::kOptimizer;
  plan.job.sequence_parallel = plan.job.overlap_parameters = true;
  const std::string text = emit(Launcher::kMegatron, plan, cluster_of("H100-SXM5-80GB"), "/cluster.json");
  for (const char* part :
       {"--overlap-grad-reduce", "--use-distributed-optimizer", "--overlap-param-gather",
        "--sequence-parallel", "--bf16", "--rotary-base 500000", "--attention-dropout 0 --hidden-dropout 0"})
    EXPECT_MENTIONS(text, part);
  plan.job.sharding = Sharding::kNone;
  EXPECT_SILENT_ON(emit(Launcher::kMegatron, plan, cluster_of("H100-SXM5-80GB"), "/cluster.json"),
                   "--overlap-param-gather");
}

TEST(FrameworkArguments, SaysWhichLayersHaveExpertsAndWhoDividesThem) {
  Plan plan = plans_with_every_choice(Framework::kMegatron).back();
  const auto cluster = cluster_of("H100-SXM5-80GB");
  std::string text = emit(Launcher::kMegatron, plan, cluster, "/cluster.json");
  for (const char* part :
       {"--num-experts 8 --moe-router-topk 2", "--moe-ffn-hidden-size 96",
        "--moe-shared-expert-intermediate-size 48", "--moe-layer-freq \"[1]*1+[0]*1+[1]*1+[0]*1",
        "--moe-grouped-gemm --moe-token-dispatcher-type alltoall",
        "--expert-model-parallel-size 2 --expert-tensor-parallel-size 2"})
    EXPECT_MENTIONS(text, part);
  EXPECT_SILENT_ON(text, "--moe-router-pre-softmax");
  plan.job.model.experts_per_token = plan.job.model.moe_every = 1;
  text = emit(Launcher::kMegatron, plan, cluster, "/cluster.json");
  EXPECT_MENTIONS(text, "--moe-router-pre-softmax");
  EXPECT_SILENT_ON(text, "--moe-layer-freq");
}

TEST(FrameworkArguments, NamesTorchtitansModels) {
  Plan plan = simple_plan(small_model(48), {"a0", "a0"}, 1, 2, 4);
  plan.job.framework = Framework::kTorchTitan;
  plan.job.sharding = Sharding::kParameters;
  plan.job.model = ModelLibrary::load().find("qwen3-30b-a3b").model;
  plan.job.expert_parallel = 2;
  const auto cluster = cluster_of("H100-SXM5-80GB");
  const std::string text = emit(Launcher::kTorchTitan, plan, cluster, "/cluster.json");
  EXPECT_MENTIONS(text, "--model.name qwen3 --model.flavor 30B-A3B");
  EXPECT_MENTIONS(text,
                  "--parallelism.expert_parallel_degree 2 --parallelism.expert_tensor_parallel_degree 1");
  Plan staged = simple_plan(plan.job.model, {"a0", "a0", "a1", "a1"}, 2, 2, 4);
  staged.job.framework = Framework::kTorchTitan;
  EXPECT_THROW(emit(Launcher::kTorchTitan, staged, cluster, "/cluster.json"), Error);
}

TEST(FrameworkArguments, TakesTheTypeThatTheGpusHave) {
  Plan plan = tensor_plan(llama(8), Framework::kMegatron);
  const std::string volta = emit(Launcher::kMegatron, plan, cluster_of("V100-SXM2-32GB"), "/cluster.json");
  EXPECT_MENTIONS(volta, "--fp16");
  EXPECT_MENTIONS(volta, "--accumulate-allreduce-grads-in-fp32");
  EXPECT_MENTIONS(volta, "# fp16 and not bf16, which V100-SXM2-32GB of host a0 does not have.");
  EXPECT_SILENT_ON(volta, "--bf16");
  EXPECT_MENTIONS(emit(
                      Launcher::kDeepSpeed,
                      [&] {
                        Plan other = plan;
                        other.job.framework = Framework::kDeepSpeed;
                        return other;
                      }(),
                      cluster_of("V100-SXM2-32GB"), "/cluster.json"),
                  "\"fp16\"");
  EXPECT_THROW(emit(Launcher::kTorchTitan, plan, cluster_of("V100-SXM2-32GB"), "/cluster.json"), Error);
  plan.job.precision = Precision::kFp8Hybrid;
  EXPECT_MENTIONS(emit(Launcher::kMegatron, plan, cluster_of("H100-SXM5-80GB"), "/cluster.json"),
                  "--bf16 --fp8-format hybrid");
  EXPECT_THROW(emit(Launcher::kMegatron, plan, cluster_of("A100-SXM4-80GB"), "/cluster.json"), Error);
}

TEST(FrameworkArguments, SayWhatTellsTheLibrarysModelsFromOthers) {
  const auto cluster = cluster_of("H100-SXM5-80GB");
  const auto script = [&](const char* name, Framework framework) {
    Plan plan = simple_plan(resolve_model(name), {"a0", "a0"}, 1, 2, 4);
    plan.job.framework = framework;
    const std::string text =
        emit(*launcher_from_name(framework_name(framework)), plan, cluster, "/cluster.json");
    EXPECT_EQ(unknown_options(program_arguments(text), std::string(framework_name(framework))), "") << text;
    return text;
  };
  struct Said {
    const char *model, *megatron, *nemo;
  };
  for (const auto& [model, megatron, nemo] :
       {Said{"qwen2.5-7b", "--add-qkv-bias", "model.config.add_qkv_bias=True"},
        Said{"qwen3-30b-a3b", "--qk-layernorm", "model.config.qk_layernorm=True"},
        Said{"llama3.1-8b", "--use-rope-scaling --rope-scaling-factor 8", "take a recipe of such a model"},
        Said{"llama3.2-1b", "--use-rope-scaling --rope-scaling-factor 32", "scaled by 32"},
        Said{"pythia-1b,parallel_mlp=no", "--rotary-percent 0.25", "model.config.rotary_percent=0.25"},
        Said{"gpt-j-6b,parallel_mlp=no,shared_norm=no,bare_attention=no,head_biases=no",
             "--rotary-interleaved", "model.config.rotary_interleaved=True"},
        Said{"deepseek-moe-16b", "--moe-router-pre-softmax", "model.config.moe_router_pre_softmax=True"}}) {
    EXPECT_MENTIONS(script(model, Framework::kMegatron), megatron);
    EXPECT_MENTIONS(script(model, Framework::kNeMo), nemo);
    EXPECT_SILENT_ON(script("llama3-8b", Framework::kMegatron), megatron);
  }
  EXPECT_MENTIONS(script("llama3-8b", Framework::kNeMo), "take a recipe with a gate through SiLU");
  EXPECT_MENTIONS(script("gemma-2b", Framework::kNeMo), "take a recipe with a gate through GELU");
  EXPECT_MENTIONS(script("gemma-2b", Framework::kNeMo),
                  "Take a recipe whose model has embeddings that are multiplied by the root of the width.");
  EXPECT_MENTIONS(script("mistral-7b", Framework::kNeMo), "model.config.window_size='[4096,0]'");
  EXPECT_SILENT_ON(script("mistral-7b,context=4096", Framework::kNeMo), "window_size");
  const char* falcon = "falcon-7b,parallel_mlp=no,shared_norm=no";
  EXPECT_MENTIONS(script(falcon, Framework::kMegatron), "--normalization LayerNorm --disable-bias-linear");
  EXPECT_MENTIONS(script(falcon, Framework::kNeMo), "model.config.normalization=LayerNorm");
  EXPECT_SILENT_ON(script(falcon, Framework::kNeMo), "Take a recipe whose");
  const std::string deepseek = script("deepseek-v3", Framework::kMegatron);
  for (const char* part :
       {"--moe-router-score-function sigmoid", "--moe-router-enable-expert-bias",
        "--moe-router-num-groups 8 --moe-router-group-topk 4", "--moe-router-topk-scaling-factor 2.5"})
    EXPECT_MENTIONS(deepseek, part);
  EXPECT_SILENT_ON(deepseek, "--moe-router-pre-softmax");
  for (const char* model : {"bloom-7b1", "mpt-7b", "gemma-2b", "opt-1.3b", "phi-2", "mistral-7b"})
    EXPECT_THROW(script(model, Framework::kMegatron), Error) << model;
}

TEST(FrameworkArguments, SayWhatTorchtitansModelMustBring) {
  const auto cluster = cluster_of("H100-SXM5-80GB");
  const auto script = [&](const char* name) {
    Plan plan = simple_plan(resolve_model(name), {"a0", "a0"}, 1, 2, 4);
    plan.job.framework = Framework::kTorchTitan;
    return emit(Launcher::kTorchTitan, plan, cluster, "/cluster.json");
  };
  EXPECT_MENTIONS(script("llama3-8b"), "torchtitan's llama3 scales rotary positions by 8");
  EXPECT_SILENT_ON(script("llama3.1-8b"), "scales rotary positions");
  EXPECT_SILENT_ON(script("qwen3-30b-a3b"), "must have");
  EXPECT_MENTIONS(
      script("bloom-7b1"),
      "must have ALiBi positions; embeddings that go through a norm, for which there is no argument");
  EXPECT_MENTIONS(script("opt-1.3b"), "must have MLPs through ReLU, for");
  EXPECT_MENTIONS(script("mistral-7b"), "must have attention to the last 4096 tokens alone, for");
  EXPECT_MENTIONS(script("llama3-8b,parallel_mlp=yes"), "are the program's arguments: 32 layers");
  EXPECT_MENTIONS(script("qwen2.5-7b"), "must have biases of queries, keys and values");
  EXPECT_SILENT_ON(script("mistral-7b"), "--model.name llama3");
  // A model that differs from torchtitan's by any of its fields is none of them.
  for (const auto& [changed, part] :
       {std::pair("llama3-8b,query_key_norms=yes,rotary_share=0.5",
                  "must have rotary positions of 0.5 of each head; norms of queries and keys, for"),
        std::pair("llama3.1-8b,rotary_share=0.5",
                  "must have rotary positions scaled by 8; rotary positions of 0.5 of each head, for"),
        std::pair("gpt-j-6b", "rotary positions that turn neighbours"),
        std::pair("llama3-8b,feed_forward=8192", "are the program's arguments: 32 layers, width 4096"),
        std::pair("qwen3-30b-a3b,experts_per_token=4",
                  "are the program's arguments: 48 layers, width 2048")}) {
    EXPECT_MENTIONS(script(changed), part);
    EXPECT_SILENT_ON(script(changed), "--model.flavor 8B");
    EXPECT_SILENT_ON(script(changed), "--model.flavor 30B-A3B");
  }
}

TEST(FrameworkArguments, NumbersRanksAsTheFrameworkDoesUnderEveryLauncher) {
  Plan plan = tensor_plan(llama(8), Framework::kMegatron);
  std::swap(plan.ranks[0], plan.ranks[7]);
  const std::string slurm = emit(Launcher::kSlurm, plan, cluster_of("H100-SXM5-80GB"), "/cluster.json");
  EXPECT_MENTIONS(slurm, "<<'END'\na0\na0\na0\na0\na1\na1\na1\na1\nEND\n");
  EXPECT_MENTIONS(slurm, "numbered by stage, then replica, as Megatron-LM does");
  EXPECT_MENTIONS(slurm, "--pipeline-model-parallel-size 2");
}

TEST(FrameworkArguments, SaysTorchTitansStagesByWhatTheFirstAndTheLastLack) {
  Plan plan = tensor_plan(llama(10), Framework::kTorchTitan);
  plan.pipelines = equal_pipelines(plan.job, {{0, 4, 2}, {4, 6, 2}});
  EXPECT_MENTIONS(emit(Launcher::kTorchTitan, plan, cluster_of("H100-SXM5-80GB"), "/cluster.json"),
                  "--parallelism.pipeline_parallel_first_stage_less_layers 2 "
                  "--parallelism.pipeline_parallel_last_stage_less_layers 0");
  Plan three = simple_plan(llama(10), {"a0", "a0", "a0"}, 3, 1, 4);
  three.job.framework = Framework::kTorchTitan;
  three.pipelines = equal_pipelines(three.job, to_stages({4, 2, 4}));
  EXPECT_THROW(emit(Launcher::kTorchTitan, three, cluster_of("H100-SXM5-80GB"), "/cluster.json"), Error);
}

TEST(FrameworkArguments, TellsTorchTitanWhenToDropParameters) {
  Plan plan = simple_plan(llama(8), {"a0", "a0", "a0", "a0"}, 1, 4, 4);
  plan.job.framework = Framework::kTorchTitan;
  for (const auto& [sharding, when] :
       {std::pair(Sharding::kGradients, "never"), std::pair(Sharding::kParameters, "always")}) {
    plan.job.sharding = sharding;
    const std::string script =
        emit(Launcher::kTorchTitan, plan, cluster_of("H100-SXM5-80GB"), "/cluster.json");
    EXPECT_MENTIONS(script, fmt::format("--parallelism.fsdp_reshard_after_forward {}", when));
    EXPECT_MENTIONS(script, "--parallelism.data_parallel_shard_degree 4");
    EXPECT_EQ(unknown_options(program_arguments(script), "torchtitan"), "");
  }
}

TEST(FrameworkArguments, KnowsTorchTitansModelsByTheirShape) {
  Model model = llama(32);
  model.hidden = 4096;
  model.heads = 32;
  model.kv_heads = 8;
  model.feed_forward = 14336;
  const Plan plan = tensor_plan(model, Framework::kTorchTitan);
  EXPECT_MENTIONS(emit(Launcher::kTorchTitan, plan, cluster_of("H100-SXM5-80GB"), "/cluster.json"),
                  "--model.name llama3 --model.flavor 8B");
}

TEST(FrameworkArguments, TellsNeMoHowManyLayersAreComputedAgain) {
  Plan plan = tensor_plan(llama(8), Framework::kNeMo);
  plan.job.recompute = Recompute::kFull;
  const auto cluster = cluster_of("H100-SXM5-80GB");
  EXPECT_MENTIONS(emit(Launcher::kNeMo, plan, cluster, "/cluster.json"),
                  "model.config.recompute_method=uniform");
  plan.job.recompute_layers = 3;
  const std::string script = emit(Launcher::kNeMo, plan, cluster, "/cluster.json");
  EXPECT_MENTIONS(script, "model.config.recompute_method=block");
  EXPECT_MENTIONS(script, "model.config.recompute_num_layers=3");
}

TEST(FrameworkArguments, NamesPyTorchsSchedules) {
  Plan plan = tensor_plan(llama(8), Framework::kTorchTitan);
  plan.job.chunks = 2;
  plan.pipelines = equal_pipelines(plan.job, {{0, 2, 2}, {2, 2, 2}, {4, 2, 2}, {6, 2, 2}});
  for (const auto& [schedule, name] : {std::pair(Schedule::kInterleaved, "Interleaved1F1B"),
                                       {Schedule::kInterleavedZeroBubble, "InterleavedZeroBubble"}}) {
    plan.job.schedule = schedule;
    EXPECT_MENTIONS(emit(Launcher::kTorchTitan, plan, cluster_of("H100-SXM5-80GB"), "/cluster.json"),
                    fmt::format("--parallelism.pipeline_parallel_schedule {} ", name));
  }
}

}  // namespace
}  // namespace tombolo::planner
