#include "planner/plan/inexpressible.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "planner/model/model_library.h"
#include "planner/plan/layer_split.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::simple_plan;
using testing::small_model;
using Sentences = std::vector<std::string>;

Plan two_by_two() {
  Plan plan = simple_plan(small_model(8), {"a0", "a1", "b0", "b1"}, 2, 2, 4);
  plan.job.framework = Framework::kMegatron;
  return plan;
}

TEST(Inexpressible, NothingOfAPlainPlan) {
  for (const Framework one : {Framework::kTombolo, Framework::kMegatron, Framework::kDeepSpeed,
                              Framework::kTorchTitan, Framework::kNeMo, Framework::kAny})
    EXPECT_EQ(inexpressible(two_by_two(), one), Sentences{}) << framework_name(one);
}

TEST(Inexpressible, NamesEachChoiceThatIsLacking) {
  Plan plan = two_by_two();
  plan.job.schedule = Schedule::kZeroBubbleH1;
  plan.job.sharding = Sharding::kOptimizer;
  EXPECT_EQ(inexpressible(plan, Framework::kMegatron),
            Sentences{"Megatron-LM has no zero-bubble-h1 schedule"});
  EXPECT_EQ(inexpressible(plan, Framework::kTorchTitan),
            (Sentences{"torchtitan has no zero-bubble-h1 schedule",
                       "torchtitan has no sharding of optimizer alone"}));
  EXPECT_EQ(inexpressible(plan, Framework::kAny), Sentences{});
  plan.pipelines[1].stages[0].tensor = 2;
  EXPECT_EQ(inexpressible(plan, Framework::kNeMo),
            (Sentences{"NeMo has no replicas that differ in stages or rows",
                       "NeMo has no stages that are shared by different numbers of ranks",
                       "NeMo has no zero-bubble-h1 schedule"}));
}

TEST(Inexpressible, NodesOfUnequalSizes) {
  Plan plan = two_by_two();
  plan.ranks[1].host = "a0";
  EXPECT_EQ(inexpressible(plan, Framework::kDeepSpeed),
            Sentences{"DeepSpeed cannot start nodes with different numbers of ranks"});
  EXPECT_EQ(inexpressible(plan, Framework::kTombolo), Sentences{});
}

TEST(Inexpressible, NodesWhoseRanksAreNotInARow) {
  Plan plan = two_by_two();
  const auto on = [&](std::vector<std::string> hosts) {
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) plan.ranks[rank].host = hosts[rank];
    return plan;
  };
  const Plan by_stage = on({"a0", "a0", "b0", "b0"}), by_replica = on({"a0", "b0", "a0", "b0"}),
             by_neither = on({"a0", "b0", "b0", "a0"});
  for (const Framework one : {Framework::kMegatron, Framework::kDeepSpeed, Framework::kTorchTitan})
    EXPECT_EQ(inexpressible(by_stage, one), Sentences{}) << framework_name(one);
  EXPECT_EQ(inexpressible(by_replica, Framework::kMegatron), Sentences{});
  EXPECT_EQ(inexpressible(by_replica, Framework::kDeepSpeed).size(), 1U);
  EXPECT_EQ(inexpressible(by_neither, Framework::kNeMo).size(), 1U);
  EXPECT_EQ(inexpressible(by_neither, Framework::kTombolo), Sentences{});
}

TEST(Inexpressible, NamesStagesThatAFrameworkCannotSay) {
  Plan plan = simple_plan(small_model(12), {"a0", "a1", "b0", "b1"}, 4, 1, 4);
  const auto of = [&](std::vector<int> layers, Framework framework) {
    plan.pipelines = equal_pipelines(plan.job, to_stages(layers));
    return inexpressible(plan, framework).size();
  };
  for (const auto& [layers, torchtitan, deepspeed] :
       {std::tuple(std::vector{3, 3, 3, 3}, 0U, 0U), std::tuple(std::vector{2, 4, 4, 2}, 0U, 1U),
        std::tuple(std::vector{4, 4, 3, 1}, 1U, 1U), std::tuple(std::vector{4, 2, 2, 4}, 1U, 1U)}) {
    EXPECT_EQ(of(layers, Framework::kMegatron), 0U);
    EXPECT_EQ(of(layers, Framework::kTorchTitan), torchtitan);
    EXPECT_EQ(of(layers, Framework::kDeepSpeed), deepspeed);
  }
}

TEST(Inexpressible, NamesWhatTorchtitanAlwaysDoesAndNeverHas) {
  Job job;
  job.framework = Framework::kTorchTitan;
  job.model = small_model(8);
  job.model.bytes_per_value = 2;
  job.tensor = 2;
  EXPECT_EQ(inexpressible(job, Framework::kTorchTitan),
            Sentences{"torchtitan has no tensor parallelism without sequence parallelism"});
  EXPECT_EQ(inexpressible(job, Framework::kMegatron), Sentences{});
  job.sequence_parallel = true;
  EXPECT_EQ(inexpressible(job, Framework::kTorchTitan), Sentences{});
  job.precision = Precision::kFp16;
  EXPECT_EQ(inexpressible(job, Framework::kTorchTitan),
            Sentences{"torchtitan has no fp16, which stands for bf16 on GPUs that have none"});
  EXPECT_EQ(inexpressible(job, Framework::kMegatron), Sentences{});
  job = {};
  job.model = ModelLibrary::load().find("qwen3-30b-a3b").model;
  EXPECT_EQ(inexpressible(job, Framework::kTorchTitan), Sentences{}) << "with a single stage";
  job.pipeline = 2;
  EXPECT_EQ(inexpressible(job, Framework::kTorchTitan),
            Sentences{"torchtitan has no stages of qwen3-30b-a3b (--pipeline 1)"});
}

TEST(Unsaid, NamesWhatOfTheModelNoArgumentSays) {
  const auto of = [](const char* model, Framework framework) {
    return unsaid(resolve_model(model), framework);
  };
  EXPECT_EQ(
      of("bloom-7b1,embedding_norm=no", Framework::kMegatron),
      "Megatron-LM has no argument for ALiBi positions; a step is timed without, and a script is written for "
      "--model ...,alibi=no");
  EXPECT_NE(of("bloom-7b1,embedding_norm=no", Framework::kNeMo), "");
  EXPECT_EQ(of("bloom-7b1", Framework::kDeepSpeed), "") << "its program brings the model";
  EXPECT_EQ(of("bloom-7b1,embedding_norm=no,alibi=no", Framework::kMegatron), "");
  EXPECT_EQ(of("gemma-2b", Framework::kNeMo), "") << "a recipe of it has both";
  EXPECT_EQ(
      of("phi-2", Framework::kMegatron),
      "Megatron-LM has no argument for layers whose MLP stands beside attention, layers with one norm for "
      "attention and MLP, biases of the output projection; a step is timed without, and a script is written "
      "for --model ...,parallel_mlp=no,shared_norm=no,head_biases=no");
  EXPECT_EQ(of("phi-2,parallel_mlp=no,shared_norm=no,head_biases=no", Framework::kMegatron), "");
  for (const char* model : {"gpt-j-6b", "gpt-neox-20b", "pythia-1b", "falcon-7b", "opt-1.3b", "gpt-neo-125m",
                            "bloom-560m", "mpt-7b"})
    for (const Framework framework : {Framework::kMegatron, Framework::kNeMo})
      EXPECT_NE(of(model, framework), "") << model;
  for (const Framework framework : {Framework::kDeepSpeed, Framework::kTorchTitan})
    for (const char* model : {"phi-2", "gpt-neo-125m", "mistral-7b"})
      EXPECT_EQ(of(model, framework), "") << "the program brings the model";
  for (const char* model : {"gpt2", "starcoder-15.5b", "llama2-7b", "llama3.1-8b", "yi-34b", "qwen2.5-7b",
                            "qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v3", "mistral-large-123b"})
    EXPECT_EQ(of(model, Framework::kMegatron), "") << model;
}

TEST(Unsaid, NamesWindowsThatAreShorterThanRows) {
  EXPECT_EQ(unsaid(resolve_model("mistral-7b"), Framework::kMegatron),
            "Megatron-LM has no argument for attention to the last 4096 tokens alone; a step is timed "
            "without, and a "
            "script is written for --model ...,window=no");
  EXPECT_EQ(unsaid(resolve_model("mistral-7b"), Framework::kNeMo), "");
  EXPECT_EQ(unsaid(resolve_model("mistral-7b,context=4096"), Framework::kMegatron), "") << "no row is longer";
  EXPECT_NE(unsaid(resolve_model("gpt-neo-125m"), Framework::kNeMo).find("window"), std::string::npos);
  EXPECT_EQ(unsaid(resolve_model("gpt-neo-125m,context=256"), Framework::kNeMo).find("window"),
            std::string::npos);
}

TEST(Inexpressible, NamesRingsOfWindows) {
  Job job;
  job.model = resolve_model("mistral-7b");
  job.context_parallel = 2;
  EXPECT_EQ(inexpressible(job, Framework::kNeMo),
            Sentences{"NeMo has no context parallelism by a ring with attention's windows"});
  job.context_exchange = ContextExchange::kAllToAll;
  EXPECT_EQ(inexpressible(job, Framework::kNeMo), Sentences{});
}

TEST(Inexpressible, NamesFormatsOfFp8) {
  Plan plan = two_by_two();
  plan.job.model.bytes_per_value = 2;
  plan.job.precision = Precision::kFp8Hybrid;
  for (const Framework one : {Framework::kMegatron, Framework::kNeMo, Framework::kAny})
    EXPECT_EQ(inexpressible(plan, one), Sentences{});
  EXPECT_EQ(inexpressible(plan, Framework::kTorchTitan),
            Sentences{"torchtitan has no products in fp8-hybrid"});
  EXPECT_EQ(inexpressible(plan, Framework::kDeepSpeed), Sentences{"DeepSpeed has no products in fp8-hybrid"});
  plan.job.precision = Precision::kFp8E4m3;
  EXPECT_EQ(inexpressible(plan, Framework::kTorchTitan), Sentences{});
}

TEST(Inexpressible, NamesShardingsWithSeveralStages) {
  Plan plan = two_by_two();
  plan.job.sharding = Sharding::kParameters;
  EXPECT_EQ(inexpressible(plan, Framework::kTorchTitan),
            Sentences{"torchtitan has no sharding of parameters with several stages"});
  EXPECT_EQ(inexpressible(plan, Framework::kDeepSpeed),
            Sentences{"DeepSpeed has no sharding of parameters with several stages"});
  EXPECT_EQ(inexpressible(plan, Framework::kMegatron),
            Sentences{"Megatron-LM has no sharding of parameters"});
  Plan flat = simple_plan(small_model(8), {"a0", "a1", "b0", "b1"}, 1, 4, 4);
  flat.job.sharding = Sharding::kParameters;
  for (const Framework one : {Framework::kTorchTitan, Framework::kDeepSpeed, Framework::kAny})
    EXPECT_EQ(inexpressible(flat, one), Sentences{});
  plan.pipelines[1].stages[0].layers = 3;
  plan.pipelines[1].stages[1] = {3, 5, 1};
  EXPECT_EQ(
      inexpressible(plan, Framework::kAny),
      Sentences{"any framework has no sharding of parameters among replicas that differ in stages or rows"});
}

TEST(Inexpressible, NamesAnExchangeOfContexts) {
  Plan plan = two_by_two();
  plan.job.context_parallel = 2;
  plan.job.context_exchange = ContextExchange::kAllToAll;
  EXPECT_EQ(inexpressible(plan, Framework::kMegatron), Sentences{});
  EXPECT_EQ(inexpressible(plan, Framework::kTorchTitan),
            Sentences{"torchtitan has no context parallelism by all-to-all"});
  EXPECT_EQ(inexpressible(plan, Framework::kDeepSpeed), Sentences{"DeepSpeed has no context parallelism"});
}

TEST(Inexpressible, NamesWhoseAttentionIsAlwaysFused) {
  Plan plan = two_by_two();
  plan.job.fused_attention = false;
  EXPECT_EQ(inexpressible(plan, Framework::kMegatron), Sentences{});
  EXPECT_EQ(inexpressible(plan, Framework::kDeepSpeed), Sentences{}) << "its programs bring their own";
  for (const auto& [framework, name] :
       {std::pair(Framework::kTorchTitan, "torchtitan"), std::pair(Framework::kNeMo, "NeMo")})
    EXPECT_EQ(inexpressible(plan, framework),
              Sentences{std::string(name) + " has no argument that leaves attention unfused"});
}

TEST(Inexpressible, NamesWhoCannotDivideExperts) {
  Plan plan = simple_plan(testing::mixture_model(8), {"a0", "a0", "b0", "b0"}, 2, 2, 4);
  plan.job.expert_parallel = 2;
  EXPECT_EQ(inexpressible(plan, Framework::kMegatron), Sentences{});
  EXPECT_EQ(inexpressible(plan, Framework::kDeepSpeed), Sentences{"DeepSpeed has no expert parallelism"});
  EXPECT_EQ(inexpressible(plan, Framework::kTorchTitan),
            Sentences{"torchtitan has no expert parallelism among replicas that do not share gradients"});
  plan.job.sharding = Sharding::kGradients;
  EXPECT_EQ(inexpressible(plan, Framework::kTorchTitan), Sentences{});
  plan.job.sharding = Sharding::kNone;
  // Numbered by replica, the ranks of both stages would be in one group.
  Plan by_replica = simple_plan(testing::mixture_model(8), {"a0", "b0", "a0", "b0"}, 2, 2, 4);
  EXPECT_EQ(inexpressible(by_replica, Framework::kMegatron), Sentences{});
  by_replica.job.expert_parallel = 2;
  EXPECT_EQ(inexpressible(by_replica, Framework::kMegatron).size(), 1U);
  plan.job.tensor = 2;
  EXPECT_EQ(
      inexpressible(plan.job, Framework::kNeMo),
      Sentences{
          "NeMo has no mixtures of experts whose layers several ranks share without dividing the sequence"});
  plan.job.sequence_parallel = true;
  plan.job.precision = Precision::kFp16;
  EXPECT_EQ(inexpressible(plan.job, Framework::kNeMo), Sentences{"NeMo has no expert parallelism in fp16"});
}

TEST(Inexpressible, NamesWhatDoesNotGoWithASecondPassForWeights) {
  Plan plan = two_by_two();
  plan.job.schedule = Schedule::kInterleavedZeroBubble;
  plan.job.chunks = 2;
  plan.pipelines = equal_pipelines(plan.job, to_stages({1, 1, 1, 1}));
  plan.job.model.layers = 4;
  EXPECT_EQ(inexpressible(plan, Framework::kTorchTitan), Sentences{});
  EXPECT_EQ(inexpressible(plan, Framework::kMegatron),
            Sentences{"Megatron-LM has no interleaved-zero-bubble schedule"});
  plan.job.recompute = Recompute::kFull;
  EXPECT_EQ(
      inexpressible(plan, Framework::kTorchTitan),
      Sentences{
          "torchtitan has no recomputation with schedule interleaved-zero-bubble, whose second pass for "
          "weights would compute again, too"});
  plan.job.recompute = Recompute::kNone;
  plan.job.overlap_tensor = true;
  EXPECT_EQ(inexpressible(plan, Framework::kTorchTitan).size(), 1U);
}

TEST(Inexpressible, NamesWhoCannotCountTheLayersThatAreComputedAgain) {
  Plan plan = two_by_two();
  plan.job.recompute = Recompute::kFull;
  plan.job.recompute_layers = 1;
  EXPECT_EQ(inexpressible(plan, Framework::kMegatron), Sentences{});
  EXPECT_EQ(inexpressible(plan, Framework::kTorchTitan),
            Sentences{"torchtitan has no full recomputation of some layers of a stage alone"});
}

TEST(Inexpressible, NamesExchangesBesideProductsThatDoNotDivideTheSequence) {
  Job job = two_by_two().job;
  job.framework = Framework::kMegatron;
  job.tensor = 2;
  job.overlap_tensor = true;
  EXPECT_EQ(
      inexpressible(job, Framework::kMegatron),
      Sentences{"Megatron-LM has no tensor-parallel exchanges beside products without sequence parallelism"});
  job.sequence_parallel = true;
  EXPECT_EQ(inexpressible(job, Framework::kMegatron), Sentences{});
}

}  // namespace
}  // namespace tombolo::planner
