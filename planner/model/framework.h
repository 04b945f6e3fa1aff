// The programs that train, and what each of them can carry out.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "planner/model/model.h"
#include "planner/model/precision.h"
#include "planner/model/recompute.h"
#include "planner/model/schedule.h"
#include "planner/model/sharding.h"

namespace tombolo::planner {

/// The program that trains; it decides what is kept in memory and what is sent.
enum class Framework {
  kTombolo,  ///< the bundled trainer
  kMegatron,
  kDeepSpeed,
  kTorchTitan,
  kNeMo,
  kAny,  ///< none that exists: can do all that is modelled, to say what the others' limits cost
};
/// "tombolo", "megatron", "deepspeed", "torchtitan", "nemo"; "any" for kAny.
std::string_view framework_name(Framework framework) noexcept;
/// The framework of that name; none is called "any".
std::optional<Framework> framework_from_name(std::string_view name) noexcept;

/// How an activation goes from the tensor-parallel ranks of a stage to those of the next.
enum class BoundaryTransfer {
  kCopyPerRank,          ///< each rank sends all of it to the rank of its number
  kPartitioned,          ///< each rank sends its part, and the receivers keep parts
  kPartitionedGathered,  ///< each rank sends its part, and the receivers gather the whole
};

/// Through which NICs of a host a framework sends where several are equally good.
enum class NicUse {
  kFirst,    ///< every rank through the first, as this library's router connects two hosts
  kNearest,  ///< each device through those next to it (rails.h), as NCCL does
};

/// What a stage does while it sends to another and receives from it, in 1F1B with one model chunk per stage
/// (and GPipe, where a plan says so). Over several chunks frameworks send beside computing.
enum class StageSends {
  kBeside,    ///< it computes
  kInTurn,    ///< neither end computes; two stages that exchange an activation and a gradient take turns
  kTogether,  ///< neither end computes; both directions of such an exchange go at once
};
/// "beside", "in-turn", "together".
std::string_view stage_sends_name(StageSends sends) noexcept;
std::optional<StageSends> stage_sends_from_name(std::string_view name) noexcept;

/// In which order a framework numbers ranks. Its launcher starts those of a node in a row.
enum class RankOrder {
  kAny,              ///< the plan's own: every rank may take any place
  kStagesOutermost,  ///< by stage, then replica, then tensor index
  kEitherOutermost,  ///< that one, or by replica, then stage, then tensor index
};

/// What a framework can express, in the release that was read. What a strategy may propose, what an emitter
/// can write and what the simulator assumes follow from this record alone.
struct FrameworkTraits {
  Framework framework = Framework::kTombolo;
  std::string_view title;         ///< as people write it
  std::string_view release = {};  ///< that was read; empty: the one beside this planner
  bool uneven_replicas = false;   ///< pipelines of one job that differ in stages or rows
  bool tensor_degree_per_stage = false;
  bool uneven_layers = false;  ///< stages of different numbers of layers
  /// Of different numbers only those in which the first and the last stage have fewer than all others.
  bool uneven_at_ends_alone = false;
  bool unequal_nodes = false;  ///< nodes with different numbers of ranks
  RankOrder rank_order = RankOrder::kStagesOutermost;
  std::span<const Schedule> schedules;
  std::span<const Recompute> recomputations;
  /// Whether the gradients of weights are computed by a second pass over the same graph, as PyTorch's zero
  /// bubbles do: until then it keeps the inputs of products and the gradients of their outputs, as many bytes
  /// as all that a layer keeps, and it would compute again twice. Its layers cannot be compiled.
  bool second_pass_for_weights = false;
  bool some_layers_again = false;  ///< whole layers are computed again only as many as it is told per chunk
  std::span<const Sharding> shardings;
  std::span<const Sharding> staged_shardings;  ///< of these, what it has with several stages
  /// Whether sharded gradients come with parameters that are sharded between passes, as FSDP keeps them,
  /// whose shards are then the optimizer's master copies.
  bool fully_shards = false;
  std::span<const Precision> fp8_formats = {};  ///< in which it multiplies matrices
  /// Whether weights keep their fp8 copies for a whole step, and activations are kept in fp8 for the backward
  /// pass, as Transformer Engine's layers do; else both are converted anew for each product.
  bool keeps_fp8 = false;
  bool fp16 = true;  ///< in which matrices are multiplied on GPUs without bf16
  bool tensor_parallel = false, sequence_parallel = false, context_parallel = false, expert_parallel = false;
  bool context_all_to_all = false;        ///< beside the ring
  bool latent_attention = false;          ///< its arguments say the shape, or its programs bring it
  bool alibi = false;                     ///< as above, of ALiBi's positions
  bool gelu_gate = false;                 ///< as above, of a gate through GELU
  bool window = false;                    ///< as above, of attention's windows
  Peculiarities peculiarities = {};       ///< as above, of a model's peculiarities
  bool tensor_divides_sequence = false;   ///< ranks that share layers always divide the sequence too
  bool experts_divide_sequence = false;   ///< mixtures need that where ranks share layers, and have no fp16
  bool experts_among_shards = false;      ///< only replicas that share parameters or gradients divide experts
  bool unfused_attention = false;         ///< an argument, or the program, can leave attention unfused
  bool tensor_overlap = false;            ///< tensor-parallel exchanges beside matrix products
  bool tensor_overlap_compiles = false;   ///< and that takes compiled layers
  bool tensor_overlap_divides = false;    ///< and that takes sequence parallelism
  bool parameter_gather_overlap = false;  ///< sharded parameters gathered beside the forward pass
  StageSends sends = StageSends::kBeside;
  NicUse nics = NicUse::kNearest;
  BoundaryTransfer boundary = BoundaryTransfer::kCopyPerRank;
  BoundaryTransfer boundary_sequence_parallel = BoundaryTransfer::kPartitioned;
};
const FrameworkTraits& traits(Framework framework) noexcept;

/// The arguments that name the model of torchtitan with this shape; empty where it has none.
std::string_view torchtitan_model(const Model& model) noexcept;
/// Whether the framework's program of this model can be cut into stages: torchtitan's of Qwen3 cannot.
bool cuts_into_stages(Framework framework, const Model& model) noexcept;

/// The framework that trains this model: the bundled trainer where it can (GPT-2's shape: learned positions,
/// biases, tied embeddings, one MLP of 4 H without a gate, as many heads of keys as of queries, and no
/// peculiarities), else
/// Megatron-LM.
Framework framework_for(const Model& model) noexcept;

}  // namespace tombolo::planner
