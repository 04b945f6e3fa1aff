#include "planner/model/framework.h"

#include <array>
#include <tuple>
#include <utility>

#include "planner/model/index.h"
#include "planner/model/names.h"

namespace tombolo::planner {

namespace {

constexpr NameTable<Framework, 5> kFrameworks{{{Framework::kTombolo, "tombolo"},
                                               {Framework::kMegatron, "megatron"},
                                               {Framework::kDeepSpeed, "deepspeed"},
                                               {Framework::kTorchTitan, "torchtitan"},
                                               {Framework::kNeMo, "nemo"}}};

constexpr NameTable<StageSends, 3> kStageSends{
    {{StageSends::kBeside, "beside"}, {StageSends::kInTurn, "in-turn"}, {StageSends::kTogether, "together"}}};

constexpr std::array kPlainSchedule{Schedule::kOneForwardOneBackward};
constexpr std::array kMegatronSchedules{Schedule::kOneForwardOneBackward, Schedule::kInterleaved};
constexpr std::array kTorchSchedules{Schedule::kGPipe, Schedule::kOneForwardOneBackward,
                                     Schedule::kInterleaved, Schedule::kInterleavedZeroBubble};
constexpr std::array kAllSchedules{Schedule::kGPipe, Schedule::kOneForwardOneBackward, Schedule::kInterleaved,
                                   Schedule::kZeroBubbleH1, Schedule::kInterleavedZeroBubble};
constexpr std::array kAllRecomputations{Recompute::kNone, Recompute::kSelective, Recompute::kFull};
constexpr std::array kWholeLayers{Recompute::kNone, Recompute::kFull};
constexpr std::array kBothFp8{Precision::kFp8Hybrid, Precision::kFp8E4m3};
constexpr std::array kFp8E4m3Alone{Precision::kFp8E4m3};
constexpr std::array kUnsharded{Sharding::kNone};
constexpr std::array kFirstSharding{Sharding::kNone, Sharding::kOptimizer};
constexpr std::array kFsdp{Sharding::kNone, Sharding::kGradients, Sharding::kParameters};
constexpr std::array kStagedFsdp{Sharding::kNone, Sharding::kGradients};
constexpr std::array kAllShardings{Sharding::kNone, Sharding::kOptimizer, Sharding::kGradients,
                                   Sharding::kParameters};

/// What pretrain_gpt.py has an argument for: the kind of norm.
constexpr Peculiarities kOfMegatron{Peculiarity::kLayerNorm};
/// Recipes of Gemma scale embeddings, those of its second release cap scores and logits.
constexpr Peculiarities kOfNemo{Peculiarity::kLayerNorm, Peculiarity::kScaledEmbedding,
                                Peculiarity::kScoreCaps};
/// Where the program brings its model, that has what it needs.
constexpr Peculiarities kOfPrograms{
    Peculiarity::kParallelMlp,     Peculiarity::kSharedNorm,      Peculiarity::kRelu,
    Peculiarity::kLayerNorm,       Peculiarity::kBareLayerNorm,   Peculiarity::kBareQkv,
    Peculiarity::kBareAttention,   Peculiarity::kUnscaledScores,  Peculiarity::kLocalLayers,
    Peculiarity::kScaledEmbedding, Peculiarity::kEmbeddingNorm,   Peculiarity::kHeadBiases,
    Peculiarity::kPostNorm,        Peculiarity::kNarrowEmbedding, Peculiarity::kScoreCaps};

constexpr FrameworkTraits kTomboloTraits{.framework = Framework::kTombolo,
                                         .title = "the bundled trainer",
                                         .uneven_layers = true,
                                         .unequal_nodes = true,
                                         .rank_order = RankOrder::kAny,
                                         .schedules = kPlainSchedule,
                                         .recomputations = kAllRecomputations,
                                         .shardings = kUnsharded,
                                         .staged_shardings = kUnsharded,
                                         .nics = NicUse::kFirst};

constexpr FrameworkTraits megatron_core(Framework framework, std::string_view title, std::string_view release,
                                        bool latent_attention) {
  return {.framework = framework,
          .title = title,
          .release = release,
          .uneven_layers = true,
          .rank_order = RankOrder::kEitherOutermost,
          .schedules = kMegatronSchedules,
          .recomputations = kAllRecomputations,
          .some_layers_again = true,
          .shardings = kFirstSharding,
          .staged_shardings = kFirstSharding,
          .fp8_formats = kBothFp8,
          .keeps_fp8 = true,
          .tensor_parallel = true,
          .sequence_parallel = true,
          .context_parallel = true,
          .expert_parallel = true,
          .context_all_to_all = true,
          .latent_attention = latent_attention,
          .gelu_gate = framework == Framework::kNeMo,  // as a recipe of Gemma has it
          .window = framework == Framework::kNeMo,
          .peculiarities = framework == Framework::kNeMo ? kOfNemo : kOfMegatron,
          .experts_divide_sequence = true,
          .unfused_attention = framework == Framework::kMegatron,
          .tensor_overlap = true,
          .tensor_overlap_divides = true,
          .parameter_gather_overlap = true,
          // Without model chunks it sets overlap_p2p_comm to false, and each exchange is one batch of sends
          // and receives that it waits for.
          .sends = StageSends::kTogether};
}
constexpr FrameworkTraits kMegatronTraits =
    megatron_core(Framework::kMegatron, "Megatron-LM", "core_v0.14.0", true);
/// NeMo's recipes of latent attention have a configuration of their own, whose keys were not read.
constexpr FrameworkTraits kNeMoTraits = megatron_core(Framework::kNeMo, "NeMo", "v2.4.0", false);

/// With stages it is its pipeline engine, which shards the optimizer at most. PipelineModule takes no list of
/// layers per stage: its methods balance layers or parameters by themselves, so that only equal stages are
/// sure to be as planned.
constexpr FrameworkTraits kDeepSpeedTraits{
    .framework = Framework::kDeepSpeed,
    .title = "DeepSpeed",
    .release = "v0.19.5",
    .schedules = kPlainSchedule,
    .recomputations = kWholeLayers,
    .shardings = kAllShardings,
    .staged_shardings = kFirstSharding,
    .tensor_parallel = true,
    .latent_attention = true,
    .alibi = true,
    .gelu_gate = true,
    .window = true,
    .peculiarities = kOfPrograms,
    .unfused_attention = true,
    .sends = StageSends::kInTurn,
    .boundary = BoundaryTransfer::kPartitionedGathered,
    .boundary_sequence_parallel = BoundaryTransfer::kPartitionedGathered};

/// With stages, torch's pipelines keep what was gathered until the last micro-batch is over, so that
/// parameters are not dropped between passes. Their plain 1F1B waits for each exchange once every stage is
/// busy; before and after that they send beside computing, which is not told apart here.
constexpr FrameworkTraits kTorchTitanTraits{.framework = Framework::kTorchTitan,
                                            .title = "torchtitan",
                                            .release = "v0.2.2",
                                            .uneven_layers = true,
                                            .uneven_at_ends_alone = true,
                                            .schedules = kTorchSchedules,
                                            .recomputations = kAllRecomputations,
                                            .second_pass_for_weights = true,
                                            .shardings = kFsdp,
                                            .staged_shardings = kStagedFsdp,
                                            .fully_shards = true,
                                            .fp8_formats = kFp8E4m3Alone,
                                            .fp16 = false,
                                            .tensor_parallel = true,
                                            .sequence_parallel = true,
                                            .context_parallel = true,
                                            .expert_parallel = true,
                                            .latent_attention = true,
                                            .alibi = true,
                                            .gelu_gate = true,
                                            .window = true,
                                            .peculiarities = kOfPrograms,
                                            .tensor_divides_sequence = true,
                                            .experts_among_shards = true,
                                            .tensor_overlap = true,
                                            .tensor_overlap_compiles = true,
                                            .parameter_gather_overlap = true,
                                            .sends = StageSends::kTogether};

constexpr FrameworkTraits kAnyTraits{.framework = Framework::kAny,
                                     .title = "any framework",
                                     .uneven_replicas = true,
                                     .tensor_degree_per_stage = true,
                                     .uneven_layers = true,
                                     .unequal_nodes = true,
                                     .rank_order = RankOrder::kAny,
                                     .schedules = kAllSchedules,
                                     .recomputations = kAllRecomputations,
                                     .some_layers_again = true,
                                     .shardings = kAllShardings,
                                     .staged_shardings = kAllShardings,
                                     .fp8_formats = kBothFp8,
                                     .keeps_fp8 = true,
                                     .tensor_parallel = true,
                                     .sequence_parallel = true,
                                     .context_parallel = true,
                                     .expert_parallel = true,
                                     .context_all_to_all = true,
                                     .latent_attention = true,
                                     .alibi = true,
                                     .gelu_gate = true,
                                     .window = true,
                                     .peculiarities = kOfPrograms,
                                     .unfused_attention = true,
                                     .tensor_overlap = true,
                                     .parameter_gather_overlap = true};

}  // namespace

std::string_view framework_name(Framework framework) noexcept {
  return framework == Framework::kAny ? "any" : name_in(kFrameworks, framework);
}

std::optional<Framework> framework_from_name(std::string_view name) noexcept {
  return value_in(kFrameworks, name);
}

std::string_view stage_sends_name(StageSends sends) noexcept {
  return name_in(kStageSends, sends);
}

std::optional<StageSends> stage_sends_from_name(std::string_view name) noexcept {
  return value_in(kStageSends, name);
}

const FrameworkTraits& traits(Framework framework) noexcept {
  switch (framework) {
    case Framework::kTombolo:
      return kTomboloTraits;
    case Framework::kMegatron:
      return kMegatronTraits;
    case Framework::kDeepSpeed:
      return kDeepSpeedTraits;
    case Framework::kTorchTitan:
      return kTorchTitanTraits;
    case Framework::kNeMo:
      return kNeMoTraits;
    case Framework::kAny:
      break;
  }
  return kAnyTraits;
}

std::string_view torchtitan_model(const Model& model) noexcept {
  // Layers, width, heads, heads of keys, values per head, inner width of the MLP or of an expert, experts.
  using Shape = std::tuple<int, int, int, int, int, int, int>;
  constexpr std::array<std::pair<Shape, std::string_view>, 5> kKnown{
      {{{32, 4096, 32, 8, 128, 14336, 0}, "--model.name llama3 --model.flavor 8B"},
       {{80, 8192, 64, 8, 128, 28672, 0}, "--model.name llama3 --model.flavor 70B"},
       {{126, 16384, 128, 8, 128, 53248, 0}, "--model.name llama3 --model.flavor 405B"},
       {{48, 2048, 32, 4, 128, 768, 128}, "--model.name qwen3 --model.flavor 30B-A3B"},
       {{94, 4096, 64, 4, 128, 1536, 128}, "--model.name qwen3 --model.flavor 235B-A22B"}}};
  const bool mixture = model.experts > 0;
  const Shape shape{model.layers, model.hidden,
                    model.heads,  model.key_value_heads(),
                    model.head(), mixture ? model.expert_inner() : model.inner(),
                    model.experts};
  const bool rotary = !model.learned_positions && !model.alibi && model.rotary_share == 1;
  // Mistral's shape is Llama 3's but for the base, Qwen3's norms tell its models from others'.
  const bool alike = rotary && model.peculiarities.empty() && !model.windowed() && model.gated &&
                     !model.gelu_gate && !model.biases && !model.qkv_biases && !model.latent() &&
                     model.router == Router{} && model.query_key_norms == mixture &&
                     (mixture ? model.experts_per_token == 8 : model.rotary_base == 500000);
  for (const auto& [known, arguments] : kKnown)
    if (known == shape && alike) return arguments;
  return {};
}

bool cuts_into_stages(Framework framework, const Model& model) noexcept {
  return framework != Framework::kTorchTitan || model.experts == 0 || torchtitan_model(model).empty();
}

Framework framework_for(const Model& model) noexcept {
  const bool gpt2 = model.learned_positions && model.biases && model.tied_embeddings && !model.gated &&
                    model.key_value_heads() == model.heads && model.inner() == 4 * model.hidden &&
                    model.attention_width() == model.hidden && !model.query_key_norms && model.experts == 0 &&
                    !model.latent() && model.peculiarities.empty() && !model.windowed();
  return gpt2 ? Framework::kTombolo : Framework::kMegatron;
}

}  // namespace tombolo::planner
