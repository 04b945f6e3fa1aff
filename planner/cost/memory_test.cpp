#include "planner/cost/memory.h"

#include <gtest/gtest.h>

#include "planner/plan/layer_split.h"

namespace tombolo::planner {
namespace {

Job gpt2_job() {
  Job job;
  job.model = {"gpt2", 12, 768, 12, 1024, 50257, 4};
  job.global_batch = 16;
  job.micro_batch = 1;
  job.pipeline = 4;
  job.data = 1;
  return job;
}

TEST(Model, CountsGpt2sParameters) {
  // GPT-2 small has 124,439,808 parameters.
  EXPECT_EQ(gpt2_job().model.parameters(), 124'439'808u);
  EXPECT_EQ(gpt2_job().model.layer_parameters(), 7'087'872u);
}

TEST(Model, StagesTogetherHoldTheModelAndOneMoreEmbedding) {
  const Model model = gpt2_job().model;
  EXPECT_EQ((model.layers_parameters(0, 12) + model.end_parameters(true, true)), model.parameters());
  EXPECT_EQ((model.layers_parameters(0, 5) + model.end_parameters(true, false)) +
                (model.layers_parameters(0, 4) + model.end_parameters(false, false)) +
                (model.layers_parameters(0, 3) + model.end_parameters(false, true)),
            model.parameters() + model.token_embedding_parameters());
}

TEST(Model, ReadsItsShortDescription) {
  const Model model = parse_model("layers=8,hidden=128,heads=4,context=64,vocabulary=256,name=small,bytes=2");
  EXPECT_EQ(model.layers, 8);
  EXPECT_EQ(model.hidden, 128);
  EXPECT_EQ(model.context, 64);
  EXPECT_EQ(model.name, "small");
  EXPECT_EQ(model.bytes_per_value, 2);
  EXPECT_THROW(parse_model("layers=8,depth=4"), Error);
  EXPECT_THROW(parse_model("layers=eight"), Error);
  EXPECT_THROW(parse_model("layers"), Error);
  EXPECT_THROW(parse_model("layers=8,hidden=10,heads=4,context=1,vocabulary=2").check(), Error);
  EXPECT_THROW(parse_model("layers=8").check(), Error);
}

/// One replica of equal stages.
Plan plan_of(const Job& job) {
  Plan plan;
  plan.job = job;
  plan.pipelines =
      equal_pipelines(job, to_stages(std::vector<int>(static_cast<std::size_t>(job.pipeline * job.chunks),
                                                      job.model.layers / job.pipeline / job.chunks)));
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages) stage.tensor = job.tensor;
  return plan;
}

RankMemory memory_of(const Job& job, int slot) {
  return rank_memory(plan_of(job), 0, slot);
}

// A long context in one micro-batch of a thousand rows: more bytes than 64 bits count, which must not look
// like few.
TEST(Memory, NeverWrapsAround) {
  Job job = gpt2_job();
  job.framework = Framework::kMegatron;
  job.model = {"long", 128, 16384, 128, 1'000'000, 128'000, 2};
  job.global_batch = job.micro_batch = 1024;
  EXPECT_GE(memory_of(job, 0).total, std::uint64_t{1} << 60);
  job.micro_batch = 1;
  job.recompute = Recompute::kFull;
  const RankMemory one = memory_of(job, 0);
  EXPECT_LT(one.total, std::uint64_t{1} << 50);
  EXPECT_GT(one.activations, std::uint64_t{1} << 40);
  Model model = job.model;
  EXPECT_NO_THROW(model.check());
  model.hidden = 1 << 28;
  EXPECT_THROW(model.check(), Error);
}

TEST(Memory, ParametersGradientsAndAdamStateArePerStage) {
  const Job job = gpt2_job();
  const std::uint64_t layer = job.model.layer_parameters();
  const RankMemory middle = memory_of(job, 1);
  EXPECT_EQ(middle.parameters, 3 * layer * 4);
  EXPECT_EQ(middle.gradients, 3 * layer * 4);
  EXPECT_EQ(middle.optimizer, 3 * layer * 8);
  EXPECT_EQ(memory_of(job, 0).parameters, (3 * layer + job.model.embedding_parameters()) * 4);
  EXPECT_EQ(memory_of(job, 3).parameters, (3 * layer + job.model.token_embedding_parameters() + 2 * 768) * 4);
  EXPECT_EQ(middle.total,
            middle.parameters + middle.gradients + middle.optimizer + middle.activations + middle.buffers);
}

TEST(Memory, EarlierStagesHoldMoreMicroBatchesInFlight) {
  const Job job = gpt2_job();
  const std::uint64_t last_but_one = memory_of(job, 2).activations;
  EXPECT_EQ(memory_of(job, 0).activations, last_but_one * 2);  // 4 against 2
  EXPECT_EQ(memory_of(job, 1).activations, last_but_one / 2 * 3);
  Job short_job = job;
  short_job.global_batch = 2;  // never more in flight than there are
  EXPECT_EQ(memory_of(short_job, 0).activations, last_but_one);
}

TEST(Memory, LogitsAreOnTheLastStageOnly) {
  const Job job = gpt2_job();
  const std::uint64_t extra = memory_of(job, 3).activations - memory_of(job, 2).activations / 2;
  EXPECT_EQ(extra, (1024ull * 50257 + 1024ull * 768 + 2 * 1024) * 4);
}

TEST(Memory, HalfPrecisionKeepsAMasterCopy) {
  Job job = gpt2_job();
  job.model.bytes_per_value = 2;
  const RankMemory memory = memory_of(job, 1);
  EXPECT_EQ(memory.parameters, 3 * job.model.layer_parameters() * 2);
  EXPECT_EQ(memory.optimizer, 3 * job.model.layer_parameters() * 12);
}

// GPT-2's 124M in bf16, in one stage: figures that can be worked out by hand.
TEST(Memory, OnAGpuIsWhatTheTrainerAllocatesThere) {
  Job job = gpt2_job();
  job.device = TrainerDevice::kCuda;
  job.model.bytes_per_value = 2;
  job.pipeline = 1;
  job.micro_batch = 4;
  const std::uint64_t parameters = 124'439'808 + (50304 - 50257) * 768;
  const RankMemory memory = memory_of(job, 0);
  EXPECT_EQ(memory.parameters, 6 * parameters);
  EXPECT_EQ(memory.gradients, 4 * parameters);
  EXPECT_NEAR(static_cast<double>(memory.optimizer), 8.0 * static_cast<double>(parameters), 8192);
  const std::uint64_t tokens = 4096, boundary = tokens * 768 * 2;
  const std::uint64_t layer = 16 * boundary + (4 + 12) * tokens * 4;
  EXPECT_NEAR(static_cast<double>(memory.activations),
              static_cast<double>(12 * layer + 2 * boundary + 7 * tokens * 4), 1024);
  job.moment_bytes = 2;
  EXPECT_NEAR(static_cast<double>(memory_of(job, 0).optimizer), 4.0 * static_cast<double>(parameters), 8192);
  job.recompute = Recompute::kFull;
  const RankMemory again = memory_of(job, 0);
  EXPECT_EQ(memory.activations - again.activations, 12 * (layer - boundary));
  EXPECT_EQ(again.buffers - memory.buffers, layer - boundary + 4 * ((1 << 20) + 64));
  job.recompute = Recompute::kSelective;
  EXPECT_EQ(memory_of(job, 0).activations, memory.activations) << "attention never keeps its weights";
}

TEST(Memory, OnACpuRecomputationSharesWhatItMakesAgain) {
  Job job = gpt2_job();
  const std::uint64_t weights = 12ull * 1024 * 1024 * 4, boundary = 1024ull * 768 * 4;
  const RankMemory none = memory_of(job, 1);
  job.recompute = Recompute::kSelective;
  const RankMemory selective = memory_of(job, 1);
  EXPECT_EQ(none.activations - selective.activations, 3 * 3 * weights) << "three layers, three in flight";
  EXPECT_EQ(selective.buffers - none.buffers, weights);
  job.recompute = Recompute::kFull;
  const RankMemory full = memory_of(job, 1);
  EXPECT_EQ(full.activations, 3 * (3 + 1) * boundary) << "the outputs, and the input";
  EXPECT_EQ(full.buffers - none.buffers, weights + 15 * boundary + 4 * 1024 * 4);
}

/// Megatron-LM's, GPT-3 22B as in arXiv 2205.05198: 48 layers, hidden 6144, 64 heads, sequence 2048.
Job megatron_job() {
  Job job;
  job.framework = Framework::kMegatron;
  job.model = {"22b", 48, 6144, 64, 2048, 51200, 2};
  job.global_batch = 4;
  job.micro_batch = 4;
  job.pipeline = 1;
  job.data = 1;
  job.tensor = 8;
  return job;
}

TEST(Memory, MegatronsActivationsAreThoseOfThePaper) {
  Job job = megatron_job();
  job.fused_attention = false;
  const double sbh = 2048.0 * 4 * 6144, core = 5.0 * 64 * 2048 / 6144;
  const auto layer = [&] {
    return static_cast<double>(layer_activation_bytes(job, 4, job.tensor).until_backward);
  };
  EXPECT_NEAR(layer(), sbh * (10 + 24.0 / 8 + core / 8), 1);
  job.sequence_parallel = true;
  EXPECT_NEAR(layer(), sbh / 8 * (34 + core), 1);
  job.recompute = Recompute::kSelective;
  EXPECT_NEAR(layer(), sbh / 8 * 34, 1);
  job.recompute = Recompute::kFull;
  EXPECT_NEAR(layer(), sbh / 8 * 2, 1);
  job.sequence_parallel = false;
  job.recompute = Recompute::kNone;
  job.tensor = 1;
  EXPECT_NEAR(layer(), sbh * (34 + core), 1);
}

TEST(Memory, OfAttentionThatIsNotFusedHoldsItsWeights) {
  Job job = megatron_job();
  job.sequence_parallel = true;
  const double sbh = 2048.0 * 4 * 6144, core = 5.0 * 64 * 2048 / 6144;
  const auto layer = [&] {
    return static_cast<double>(layer_activation_bytes(job, 4, job.tensor).until_backward);
  };
  const auto buffers = [&] { return static_cast<double>(memory_of(job, 0).buffers); };
  EXPECT_NEAR(layer(), sbh / 8 * 34, 1);
  const double plain = buffers();
  job.recompute = Recompute::kFull;
  EXPECT_NEAR(buffers() - plain, sbh / 8 * 34, 1) << "of the layer that is computed again";
  job.recompute = Recompute::kSelective;
  EXPECT_EQ(buffers(), plain) << "there are no weights to compute again";
  job.fused_attention = false;
  EXPECT_NEAR(layer(), sbh / 8 * 34, 1);
  EXPECT_NEAR(buffers() - plain, sbh / 8 * core, 1) << "of one layer at a time";
  job.recompute = Recompute::kFull;
  EXPECT_NEAR(buffers() - plain, sbh / 8 * (34 + core), 1);
  job.recompute = Recompute::kNone;
  EXPECT_NEAR(layer(), sbh / 8 * (34 + core), 1);
}

TEST(Memory, InFp8KeepsOperandsInOneByteAndTwoCopiesOfEveryMatrix) {
  Job job = megatron_job();
  job.recompute = Recompute::kSelective;
  job.sequence_parallel = true;
  const RankMemory bf16 = memory_of(job, 0);
  job.precision = Precision::kFp8Hybrid;
  const RankMemory fp8 = memory_of(job, 0);
  const double sbh = 2048.0 * 4 * 6144;
  const auto layer = [&] {
    return static_cast<double>(layer_activation_bytes(job, 4, job.tensor).until_backward);
  };
  EXPECT_NEAR(layer(), sbh / 8 * 29, 1);
  EXPECT_NEAR(static_cast<double>(bf16.activations - fp8.activations), 48 * sbh / 8 * 5, 48);
  EXPECT_EQ(fp8.parameters - bf16.parameters, 48 * 2 * std::uint64_t{12} * 6144 * 6144 / 8);
  EXPECT_EQ(fp8.optimizer, bf16.optimizer) << "the master copy is what is updated";
  job.framework = Framework::kTorchTitan;
  job.precision = Precision::kFp8E4m3;
  EXPECT_EQ(memory_of(job, 0).parameters, bf16.parameters) << "it converts for each product";
  EXPECT_NEAR(layer(), sbh / 8 * 34, 1);
}

TEST(Memory, OfASoftwareThatWasMeasuredIsWhatItsRecordSays) {
  Job job = megatron_job();
  const RankMemory counted = memory_of(job, 0);
  auto compute = std::make_shared<ComputeProfiles>();
  compute->memory = HeldMemory{.gradient_bytes = 2,
                               .kept_hidden = 14,
                               .kept_inner = 4,
                               .logit_bytes = 12,
                               .bytes = 1e6,
                               .source = "made up"};
  job.compute = compute;
  const double tokens = 2048.0 * 4, h = 6144, inner = job.model.inner();
  const auto layer = [&] {
    return static_cast<double>(layer_activation_bytes(job, 4, job.tensor).until_backward);
  };
  EXPECT_NEAR(layer(), 2 * tokens * (4 * h + (10 * h + 4 * inner) / 8), 1);
  job.sequence_parallel = true;
  EXPECT_NEAR(layer(), 2 * tokens * (14 * h + 4 * inner) / 8, 1);
  job.sequence_parallel = false;
  const RankMemory held = memory_of(job, 0);
  EXPECT_EQ(held.gradients, counted.gradients + counted.parameters) << "values have 2 bytes";
  EXPECT_EQ(held.optimizer, counted.optimizer);
  // Megatron-LM's logits count 8 bytes, of which 4 are among the activations.
  const double logits = tokens * 51200 / 8;
  EXPECT_NEAR(static_cast<double>(held.buffers) - static_cast<double>(counted.buffers), 1e6 + 4 * logits, 1);
}

TEST(Memory, DeferredAreWholeActivationsOfWhatWasMeasuredToWait) {
  Job job = megatron_job();
  const auto deferred = [&] { return deferred_bytes(plan_of(job), 0, 0); };
  job.pipeline = 1;
  EXPECT_EQ(deferred(), 0u) << "nothing was measured";
  auto compute = std::make_shared<ComputeProfiles>();
  compute->memory =
      HeldMemory{.deferred_alone = 49, .deferred_staged = 31, .deferred_tensor = 8, .source = "made up"};
  job.compute = compute;
  const std::uint64_t boundary = std::uint64_t{2048} * 4 * 6144 * 2;
  EXPECT_EQ(deferred(), 49 * boundary) << "however many ranks share a layer";
  job.tensor = 16;
  EXPECT_EQ(deferred(), 49 * boundary);
  job.tensor = 1;
  EXPECT_EQ(deferred(), 0u) << "nothing is exchanged";
  job.tensor = 8;
  job.pipeline = 2;
  EXPECT_EQ(deferred(), 0u);
  job.pipeline = 4;
  EXPECT_EQ(deferred(), 31 * boundary);
  const std::uint64_t total = memory_of(job, 0).total;
  compute->memory->deferred_staged = 0;
  EXPECT_EQ(memory_of(job, 0).total, total) << "no plan needs them";
  compute->memory->deferred_staged = 31;
  job.tensor = 16;
  EXPECT_EQ(deferred(), 0u);
}

TEST(Memory, AShardedOptimizerIsDividedAmongReplicas) {
  Job job = megatron_job();
  job.data = 2;
  job.global_batch = 8;
  const RankMemory whole = memory_of(job, 0);
  job.sharding = Sharding::kOptimizer;
  const RankMemory half = memory_of(job, 0);
  EXPECT_EQ(half.optimizer, whole.optimizer / 2);
  EXPECT_EQ(half.parameters, whole.parameters);
  EXPECT_EQ(whole.gradients, whole.parameters * 2) << "Megatron-LM accumulates in fp32";
}

TEST(Memory, InterleavingHoldsMoreThanPlain1F1B) {
  Job job = megatron_job();
  job.pipeline = 4;
  job.micro_batch = 1;
  job.global_batch = 16;
  const std::uint64_t plain = memory_of(job, 1).activations;
  job.schedule = Schedule::kInterleaved;
  job.chunks = 2;
  // (stages - 1 - stage) x 2 + (chunks - 1) x stages + 1 of half as many layers, against stages - stage.
  EXPECT_EQ(memory_of(job, 1).activations, plain / 3 * 9 / 2);
  job.schedule = Schedule::kGPipe;
  job.chunks = 1;
  EXPECT_EQ(memory_of(job, 1).activations, plain / 3 * 16);
}

// ZeRO (arXiv 1910.02054), figure 1: 7.5 billion parameters, 64 replicas, 2 bytes of parameter and of
// gradient and 12 of optimizer take 120 GB, 31.4, 16.6 and 1.9.
TEST(Memory, OfShardedStatesIsWhatTheZeroPaperSays) {
  Job job = gpt2_job();
  job.framework = Framework::kDeepSpeed;
  job.fp32_gradients = false;
  job.model.bytes_per_value = 2;
  job.pipeline = 1;
  job.data = 64;
  job.global_batch = 64;
  const auto gigabytes = [&](Sharding sharding) {
    job.sharding = sharding;
    const RankMemory memory = memory_of(job, 0);
    return 7.5 * static_cast<double>(memory.parameters + memory.gradients + memory.optimizer) /
           static_cast<double>(job.model.parameters());
  };
  EXPECT_NEAR(gigabytes(Sharding::kNone), 120, 0.05);
  EXPECT_NEAR(gigabytes(Sharding::kOptimizer), 31.4, 0.05);
  EXPECT_NEAR(gigabytes(Sharding::kGradients), 16.6, 0.05);
  EXPECT_NEAR(gigabytes(Sharding::kParameters), 1.9, 0.05);
}

TEST(Memory, OfSharedParametersHoldsTwoLayersWhole) {
  Job job = gpt2_job();
  job.framework = Framework::kDeepSpeed;
  job.model.bytes_per_value = 2;
  job.model.tied_embeddings = false;
  job.pipeline = 1;
  job.data = 4;
  const RankMemory whole = memory_of(job, 0);
  job.sharding = Sharding::kParameters;
  const RankMemory divided = memory_of(job, 0);
  // The embedding is larger than a layer. Parameters have 2 bytes and gradients 4.
  const std::uint64_t two = job.model.layer_parameters() + job.model.embedding_parameters();
  EXPECT_EQ(divided.buffers - whole.buffers, two * (2 + 4));
  EXPECT_EQ(divided.activations, whole.activations);
  EXPECT_EQ(divided.parameters, (whole.parameters + 3) / 4);
  EXPECT_EQ(divided.gradients, (whole.gradients + 3) / 4);
  // FSDP's shards are the master copies: 4 bytes in place of 2, and moments alone beside them.
  job.framework = Framework::kTorchTitan;
  const RankMemory fsdp = memory_of(job, 0);
  EXPECT_EQ(fsdp.parameters, whole.parameters * 2 / 4);
  EXPECT_EQ(fsdp.optimizer, whole.parameters * 4 / 4);
  EXPECT_EQ(fsdp.buffers, divided.buffers);
  // Kept from forward to backward, parameters are whole and gradients divided; with stages both are whole.
  job.sharding = Sharding::kGradients;
  const RankMemory kept = memory_of(job, 0);
  EXPECT_EQ(kept.parameters, whole.parameters);
  EXPECT_EQ(kept.gradients, divided.gradients);
  EXPECT_EQ(kept.optimizer, divided.optimizer);
  job.pipeline = 2;
  const RankMemory staged = memory_of(job, 0);
  job.sharding = Sharding::kNone;
  EXPECT_EQ(staged.gradients, memory_of(job, 0).gradients);
  EXPECT_LT(staged.optimizer, memory_of(job, 0).optimizer);
}

TEST(Memory, OfDividedRowsIsThatOfTheirPart) {
  Job job = megatron_job();
  job.recompute = Recompute::kSelective;
  const RankMemory whole = memory_of(job, 0);
  job.context_parallel = job.data = 4;
  const RankMemory part = memory_of(job, 0);
  EXPECT_NEAR(static_cast<double>(part.activations), static_cast<double>(whole.activations) / 4, 64);
  EXPECT_EQ(part.parameters, whole.parameters);
  EXPECT_EQ(part.optimizer, whole.optimizer);
  // Two blocks of keys and values with their gradients; one is as large as a part's boundary.
  job.recompute = Recompute::kNone;
  const std::uint64_t boundary = std::uint64_t{2048} / 4 * 4 * 6144 * 2;
  const RankMemory none = memory_of(job, 0);
  EXPECT_EQ(none.activations, part.activations) << "fused attention keeps no weights";
  EXPECT_EQ(none.buffers, std::uint64_t{4} * (2048 / 4 * 4) * 51200 / 8 + 4 * 2 * boundary / 8);
  job.sharding = Sharding::kOptimizer;
  EXPECT_EQ(memory_of(job, 0).optimizer, part.optimizer / 4) << "they shard with all replicas";
}

TEST(Memory, OfDividedExpertsIsAPartOfTheirsAlone) {
  Job job = megatron_job();
  job.model.biases = false;
  job.model.experts = 16;
  job.model.experts_per_token = 2;
  job.data = 8;
  job.global_batch = 8 * 64;
  job.sharding = Sharding::kOptimizer;
  job.recompute = Recompute::kSelective;
  const RankMemory whole = memory_of(job, 0);
  job.expert_parallel = 4;
  const RankMemory part = memory_of(job, 0);
  const int layers = job.model.layers / job.pipeline;
  const std::uint64_t experts =
      static_cast<std::uint64_t>(layers) * 16 * job.model.expert_parameters(job.tensor);
  EXPECT_EQ(whole.parameters - part.parameters, experts * 3 / 4 * 2);
  EXPECT_EQ(whole.gradients - part.gradients, experts * 3 / 4 * 4);
  // All replicas share the state of what all hold, and two that of the same experts: as much in all.
  EXPECT_NEAR(static_cast<double>(part.optimizer), static_cast<double>(whole.optimizer), 16);
  EXPECT_EQ(part.activations, whole.activations);
  // Two boundaries for each token's experts are under way; an eighth of each where the sequence is divided.
  const std::uint64_t boundary = std::uint64_t{4} * 2048 * 6144 * 2;
  EXPECT_EQ(part.buffers - whole.buffers, 2 * 2 * boundary / (job.sequence_parallel ? 8 : 1));
}

TEST(Memory, OfTheFullestRankHoldsMoreOfItsExpertsTokens) {
  Job job = megatron_job();
  job.model.biases = false;
  job.model.experts = 16;
  job.model.experts_per_token = 2;
  job.sequence_parallel = false;
  job.recompute = Recompute::kNone;
  job.expert_parallel = job.data = 4;
  job.global_batch = 4 * 64;
  const auto layer = [&] { return layer_activation_bytes(job, 1, 1, Mlp::kMixture).until_backward; };
  const std::uint64_t even = layer(), sent = memory_of(job, 0).buffers;
  job.model.expert_imbalance = 1.5;
  const std::uint64_t tokens = 2048, h = 6144, f = 4 * h;
  EXPECT_EQ(layer() - even, tokens * (f * 2 * 2 + h * 2)) << "half of two experts' insides and copies";
  EXPECT_EQ(memory_of(job, 0).buffers - sent, 4 * tokens * h * 2) << "half of the two copies that arrive";
}

TEST(Memory, OfLatentAttentionIsTheCompressedAndWholeHeads) {
  Job job = megatron_job();
  job.model.biases = false;
  job.model.learned_positions = false;
  job.recompute = Recompute::kSelective;
  job.sequence_parallel = true;
  const auto layer = [&] { return layer_activation_bytes(job, 1, 2).until_backward; };
  const std::uint64_t usual = layer();
  const int heads = job.model.heads, head = job.model.head();
  job.model.head_width = head;
  job.model.kv_rank = 512;
  job.model.query_rank = 1536;
  job.model.rotary_width = 64;
  job.model.value_width = head;
  job.model.check();
  // Queries and keys have 64 values more per head; a token's 2112 compressed values are kept, and all but 64
  // of them once more behind their norms.
  EXPECT_EQ(layer() - usual, std::uint64_t{2048} * 2 * (2 * 64 * heads + 2112 + 2048) / 2);
}

TEST(Memory, OfAMixtureHoldsTheInsideOfItsExpertsAndTheTokensThatTheyGet) {
  Job job = megatron_job();
  job.model.biases = false;
  job.sequence_parallel = false;
  job.recompute = Recompute::kSelective;
  const auto layer = [&](Mlp mlp) { return layer_activation_bytes(job, 1, 1, mlp).until_backward; };
  job.model.experts = 16;
  job.model.experts_per_token = 2;
  const std::uint64_t tokens = 2048, h = 6144, f = 4 * h;
  EXPECT_EQ(layer(Mlp::kMixture) - layer(Mlp::kDense), tokens * (2 * f * 2 + 2 * h * 2 + 16 * 5));
  // Dense layers and mixtures of a stage are added up.
  job.model.dense_first = 1;
  job.model.layers = 4;
  job.pipeline = job.tensor = 1;
  job.data = 1;
  const auto activations = [&] { return memory_of(job, 0).activations; };
  const std::uint64_t mixed = activations();
  job.model.dense_first = 0;
  EXPECT_EQ((activations() - mixed) % (layer(Mlp::kMixture) - layer(Mlp::kDense)), 0u);
  EXPECT_GT(activations(), mixed);
}

TEST(Memory, OfSomeLayersComputedAgainIsBetweenThatOfNoneAndOfAll) {
  Job job = megatron_job();
  job.pipeline = 4;
  job.micro_batch = 1;
  job.global_batch = 16;
  for (const int chunks : {1, 2}) {
    job.schedule = chunks > 1 ? Schedule::kInterleaved : Schedule::kOneForwardOneBackward;
    job.chunks = chunks;
    const int layers = job.model.layers / 4 / chunks;
    job.recompute = Recompute::kNone;
    job.recompute_layers = 0;
    const std::uint64_t none = memory_of(job, 1).activations;
    job.recompute = Recompute::kFull;
    const std::uint64_t all = memory_of(job, 1).activations;
    ASSERT_GT(layers, 2);
    for (const int again : {1, layers - 1}) {
      job.recompute_layers = again;
      EXPECT_EQ(memory_of(job, 1).activations, none - (none - all) / at(layers) * at(again)) << chunks;
    }
    job.recompute_layers = layers + 1;
    EXPECT_EQ(memory_of(job, 1).activations, all);
  }
}

TEST(Memory, WhereWeightsTakeASecondPassIsHeldUntilThen) {
  Job job = megatron_job();
  job.pipeline = 4;
  job.micro_batch = 1;
  job.global_batch = 16;
  job.schedule = Schedule::kInterleavedZeroBubble;
  job.chunks = 2;
  const std::uint64_t megatron = memory_of(job, 3).activations;
  job.framework = Framework::kTorchTitan;
  EXPECT_GT(memory_of(job, 3).activations, megatron);
}

}  // namespace
}  // namespace tombolo::planner
