#include "planner/cost/memory.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "planner/cost/cuda_memory.h"
#include "planner/cost/slot_parameters.h"
#include "planner/model/index.h"
#include "planner/model/replica_exchange.h"
#include "planner/model/schedule.h"

namespace tombolo::planner {

namespace {

/// The sizes of a micro-batch's tensors, in values.
struct Sizes {
  Sizes(const Job& job, int micro_batch_rows) : Sizes(job.model, job.context_parallel, micro_batch_rows) {}
  Sizes(const Model& model, int context_parallel, int micro_batch_rows)
      : rows(static_cast<std::uint64_t>(micro_batch_rows)),
        tokens(rows * static_cast<std::uint64_t>(model.context / context_parallel)),
        boundary(tokens * static_cast<std::uint64_t>(model.hidden)),
        logits(tokens * static_cast<std::uint64_t>(model.vocabulary)),
        heads(static_cast<std::uint64_t>(model.heads)),
        square(static_cast<std::uint64_t>(model.context) * static_cast<std::uint64_t>(model.context)) {}
  std::uint64_t rows, tokens, boundary, logits, heads, square;
};

/// The attention weights of one layer.
std::uint64_t tombolo_weights(const Sizes& sizes) {
  return sizes.rows * sizes.heads * sizes.square;
}

/// What of a layer's values the bundled trainer shares between all layers, because backward computes them
/// again.
std::uint64_t tombolo_shared_values(const Sizes& sizes, Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      return 0;
    case Recompute::kSelective:
      return tombolo_weights(sizes);
    case Recompute::kFull:
      return 15 * sizes.boundary + 4 * sizes.tokens + tombolo_weights(sizes);
  }
  return 0;
}

std::uint64_t tombolo_layer_values(const Sizes& sizes, Recompute recompute) {
  return 16 * sizes.boundary + 4 * sizes.tokens + tombolo_weights(sizes) -
         tombolo_shared_values(sizes, recompute);
}

/// Bytes per value of the masks that dropout keeps: one in GPT-2's kind of model, none in later kinds.
double dropout_masks(const Model& model) {
  return model.biases ? 1 : 0;
}

/// What was measured of the software that trains; null where nothing was.
const HeldMemory* held_memory(const Job& job) {
  return job.compute && job.compute->memory ? &*job.compute->memory : nullptr;
}

/// The bytes that a layer keeps of which `held` says how many values; its attention is fused.
std::uint64_t measured_layer(const Job& job, const HeldMemory& held, double tokens, double tensor, Mlp mlp) {
  const Model& model = job.model;
  const double h = model.hidden;
  // The inputs of both norms and of both pairs of products are whole on every rank unless the sequence is
  // divided; models with fewer heads of keys and values keep fewer of these.
  const double whole = 4 * h, shared_heads = 2 - 2.0 * model.key_value_heads() / model.heads;
  const double divided =
      (held.kept_hidden - shared_heads) * h - whole + held.kept_inner * job.token_inner(mlp);
  const double copies = mlp == Mlp::kMixture ? job.expert_load() * model.experts_per_token * h : 0;
  return static_cast<std::uint64_t>(
      tokens * model.bytes_per_value *
      (whole / (job.sequence_parallel ? tensor : 1) + copies + divided / tensor));
}

/// Whether products keep their operands in fp8.
bool keeps_fp8(const Job& job) {
  return is_fp8(job.multiplies_in()) && traits(job.framework).keeps_fp8;
}

/// The bytes that Megatron-LM keeps of one layer for a micro-batch of `rows` rows.
HeldBytes megatron_layer(const Job& job, int rows, int tensor, Mlp mlp) {
  const Model& model = job.model;
  const double h = model.hidden, b = model.bytes_per_value, t = tensor, mask = dropout_masks(model);
  const double a = model.attention_width(), f = job.token_inner(mlp);
  const double tokens = static_cast<double>(rows) * model.context / job.context_parallel;
  const double sequence = job.sequence_parallel ? t : 1;
  if (job.recompute == Recompute::kFull) {
    const auto input = static_cast<std::uint64_t>(tokens * b * h / sequence);
    return {input, input};
  }
  if (const HeldMemory* held = held_memory(job)) {
    const std::uint64_t kept = measured_layer(job, *held, tokens, t, mlp);
    return {kept, kept};
  }
  // The inputs of both norms and of both pairs of products, and two masks, are whole on every rank unless the
  // sequence is divided. Queries, keys, values, the core's output and the inside of the MLP are divided by
  // heads and columns.
  // Products in fp8 keep their inputs in one byte; attention keeps its output beside that, as its own kernels
  // need it.
  const double operand = keeps_fp8(job) ? 1 : b;
  // Latent attention keeps what its norms of the compressed read, and what the products of their outputs
  // read.
  const double compressed = model.compressed_width(), normed = compressed - model.rotary_width;
  const double products_in = operand * (2 * h + normed), core_out = operand * a, inner_out = operand * f;
  const double attention_out = keeps_fp8(job) ? b * a : 0;
  const double inner_in = b * f * (model.gated ? 2 : 1);
  const double scores = mlp == Mlp::kMixture ? 5.0 * model.experts : 0;
  const double copies = mlp == Mlp::kMixture ? operand * job.expert_load() * model.experts_per_token * h : 0;
  const double whole = 2 * b * h + b * compressed + products_in + 2 * mask * h + scores;
  const double divided = b * (1.0 * model.query_width() + model.keys_values_width()) + core_out +
                         attention_out + inner_in + inner_out;
  // Softmax, its dropout, and what dropout kept count for every pair of tokens and each head.
  const double core = job.recompute == Recompute::kSelective || !job.has_attention_weights()
                          ? 0
                          : static_cast<double>(model.heads) * model.context * (b + mask * (1 + b));
  const double until_backward = whole / sequence + copies + (divided + core) / t;
  const double until_weights = products_in / sequence + copies + (core_out + inner_out) / t;
  const auto kept = static_cast<std::uint64_t>(tokens * until_backward);
  return {kept, traits(job.framework).second_pass_for_weights
                    ? kept
                    : static_cast<std::uint64_t>(tokens * until_weights)};
}

/// The most bytes that any device was measured to keep; 0 where none was measured.
std::uint64_t measured_bytes(const Profile& profile, std::string_view kind, int rows, int tensor) {
  std::uint64_t most = 0;
  for (const Profile::Measurement& one : profile.measurements)
    if (one.kind == kind && one.tensor == tensor && one.times.kept_bytes > 0)
      if (const auto times = profile.times(one.device, kind, tensor, rows))
        most = std::max(most, times->kept_bytes);
  return most;
}

/// What a layer holds: as measured where a profile has it with what the job computes again, else as
/// layer_activation_bytes() says. A profile does not tell which bytes are needed only for the gradients of
/// weights, so all of them count as kept until those are computed.
HeldBytes held_by_layer(const Job& job, int layer, int rows, int tensor) {
  if (job.profile && job.recompute == job.profile->recompute)
    if (const std::uint64_t kept = measured_bytes(*job.profile, job.profile->kind_of(layer), rows, tensor))
      return {kept, kept};
  return layer_activation_bytes(job, rows, tensor, job.model.mlp_of(layer));
}

/// The bytes that a chunk with these layers holds for one micro-batch.
HeldBytes chunk_bytes(const Plan& plan, const Pipeline& pipeline, const Stage& stage, bool first, bool last) {
  const Job& job = plan.job;
  const Model& model = job.model;
  const Sizes sizes(job, pipeline.micro_batch);
  const auto value = static_cast<std::uint64_t>(model.bytes_per_value);
  const auto tensor = static_cast<std::uint64_t>(stage.tensor);
  // The first so many layers keep what the job says, and the others, where only some are computed again, all.
  const int first_kind = job.recompute == Recompute::kFull ? job.layers_again(stage.layers) : stage.layers;
  std::optional<Job> whole;
  if (first_kind < stage.layers) {
    whole = job;
    whole->recompute = Recompute::kNone;
  }
  HeldBytes held;
  const auto add = [&](const HeldBytes& layer, int count) {
    held.until_backward += at(count) * layer.until_backward;
    held.until_weights += at(count) * layer.until_weights;
  };
  const auto add_layers = [&](const Job& one, int first_layer, int layers) {
    if (one.profile) {
      for (int i = first_layer; i < first_layer + layers; ++i)
        add(held_by_layer(one, i, pipeline.micro_batch, stage.tensor), 1);
      return;
    }
    const int mixtures = model.mixtures(first_layer, layers);
    for (const auto& [mlp, count] :
         {std::pair(Mlp::kDense, layers - mixtures), std::pair(Mlp::kMixture, mixtures)})
      if (count > 0) add(layer_activation_bytes(one, pipeline.micro_batch, stage.tensor, mlp), count);
  };
  add_layers(job, stage.first_layer, first_kind);
  if (whole) add_layers(*whole, stage.first_layer + first_kind, stage.layers - first_kind);
  std::uint64_t more = 0;
  if (job.framework == Framework::kTombolo) {
    more = sizes.boundary;  // the input
    if (last) more += sizes.boundary + 2 * sizes.tokens + sizes.logits;
    more *= value;
  } else {
    const std::uint64_t sequence = job.sequence_parallel ? tensor : 1;
    if (first) more += static_cast<std::uint64_t>(dropout_masks(model)) * sizes.boundary / sequence;
    // The head keeps the inputs of the final norm and of the projection, and the logits in fp32 for the loss.
    const std::uint64_t head = 2 * value * sizes.boundary / sequence + 4 * sizes.logits / tensor;
    const std::uint64_t kept =
        job.profile ? measured_bytes(*job.profile, Profile::kHead, pipeline.micro_batch, stage.tensor) : 0;
    if (last) more += kept > 0 ? kept : head;
  }
  held.until_backward += more;
  held.until_weights += more;
  return held;
}

/// Leaves of what a rank holds its share among the replicas, and adds what is whole for a while.
void divide_among_replicas(const Plan& plan, int replica, int slot, RankMemory& memory) {
  const Job& job = plan.job;
  const auto replicas = static_cast<std::uint64_t>(plan.data_size());
  const auto alike =  // hold the same experts
      std::max<std::uint64_t>(1, replicas / static_cast<std::uint64_t>(job.expert_parts()));
  const double expert_share = static_cast<double>(slot_expert_parameters(plan, replica, slot)) /
                              static_cast<double>(slot_parameters(plan, replica, slot));
  const auto divide = [&](std::uint64_t& bytes) {
    const auto experts = static_cast<std::uint64_t>(std::llround(expert_share * static_cast<double>(bytes)));
    bytes = (bytes - experts + replicas - 1) / replicas + (experts + alike - 1) / alike;
  };
  const ReplicaExchange exchange = replica_exchange(job.framework, job.sharding, plan.pipeline_size(replica));
  const std::uint64_t parameters = slot_parameters(plan, replica, slot);
  if (exchange.gather == ParameterGather::kEachPass) {
    memory.buffers +=
        two_layers_parameters(plan, replica, slot) * static_cast<std::uint64_t>(job.model.bytes_per_value);
    if (traits(job.framework).fully_shards && job.model.bytes_per_value < 4) {
      // Its shards of the parameters are the master copies.
      memory.parameters = 4 * parameters;
      memory.optimizer -= 4 * parameters;
    }
    divide(memory.parameters);
  }
  if (exchange.reduction == GradientReduction::kEachMicroBatch) {
    divide(memory.gradients);
    memory.buffers +=
        two_layers_parameters(plan, replica, slot) * static_cast<std::uint64_t>(job.gradient_bytes());
  }
  divide(memory.optimizer);
}

/// What replicas that divide rows' tokens have under way of one layer: by a ring two blocks of keys and
/// values, one in use and one arriving, each with its gradients; by all-to-alls the exchanged queries, keys,
/// values and outputs.
std::uint64_t context_buffers(const Job& job, std::uint64_t boundary, std::uint64_t tensor) {
  if (job.context_parallel == 1) return 0;
  const Model& model = job.model;
  const double keys_values = model.keys_values_width();
  const double values = (job.context_exchange == ContextExchange::kRing
                             ? 4 * keys_values
                             : 1.0 * model.query_width() + model.attention_width() + keys_values) /
                        model.hidden;
  return static_cast<std::uint64_t>(values * static_cast<double>(boundary) * job.model.bytes_per_value /
                                    static_cast<double>(tensor));
}

/// Tokens of one layer on their way to experts on other replicas, as they are sent and as they arrive.
std::uint64_t expert_buffers(const Job& job, std::uint64_t boundary, std::uint64_t tensor) {
  if (job.expert_parts() == 1) return 0;
  // As many are sent as the router sends; what arrives is more on the rank that gets most.
  const double copies = (1 + job.expert_load()) * job.model.experts_per_token;
  return static_cast<std::uint64_t>(copies * static_cast<double>(boundary)) *
         static_cast<std::uint64_t>(job.model.bytes_per_value) / (job.sequence_parallel ? tensor : 1);
}

/// A number of bytes that no device will have, and that is still far from the limit of 64 bits.
constexpr std::uint64_t kBeyondCounting = std::uint64_t{1} << 60;

/// Whether a pipeline's activations could come near kBeyondCounting: a model with a long context, in
/// micro-batches of a whole batch.
bool beyond_counting(const Job& job, const Pipeline& pipeline) {
  const Model& model = job.model;
  const double held =
      job.schedule == Schedule::kGPipe
          ? pipeline.rows
          : std::min<double>(pipeline.rows,
                             pipeline.micro_batch * (1.0 + static_cast<double>(pipeline.stages.size())));
  // Of one layer even where all is computed again; the GPU's attention never has them.
  const double products = job.on_cuda() ? 0 : 8.0 * model.heads * model.context;
  const double copies =
      8.0 * (model.experts_per_token * (model.hidden + 2.0 * model.expert_inner()) + model.experts);
  const double layers =
      model.layers * (64.0 * model.hidden + 8.0 * model.inner() + (model.experts > 0 ? copies : 0) +
                      (job.recompute == Recompute::kNone || job.recompute_layers > 0 ? products : 0));
  return held * model.context * (layers + products + 8.0 * model.vocabulary) >
         static_cast<double>(kBeyondCounting);
}

}  // namespace

HeldBytes layer_activation_bytes(const Job& job, int rows, int tensor, Mlp mlp) {
  if (job.framework != Framework::kTombolo) return megatron_layer(job, rows, tensor, mlp);
  const std::uint64_t bytes = job.on_cuda() ? cuda_layer_bytes(job, rows)
                                            : tombolo_layer_values(Sizes(job, rows), job.recompute) *
                                                  static_cast<std::uint64_t>(job.model.bytes_per_value);
  return {bytes, bytes};
}

RankMemory rank_memory(const Plan& plan, int replica, int slot) {
  const Job& job = plan.job;
  const Model& model = job.model;
  const Pipeline& pipeline = plan.pipelines[at(replica)];
  const int slots = plan.pipeline_size(replica);
  if (beyond_counting(job, pipeline)) {
    RankMemory memory;
    memory.activations = memory.total = kBeyondCounting;
    return memory;
  }
  if (job.on_cuda())
    return cuda_stage_memory(
        job, {plan.stage(slot, replica).layers, pipeline.micro_batch,
              micro_batches_in_flight(slot, slots, pipeline.micro_batches()), slot == 0, slot + 1 == slots});
  const Sizes sizes(job, pipeline.micro_batch);
  const auto value = static_cast<std::uint64_t>(model.bytes_per_value);

  RankMemory memory;
  const std::uint64_t parameters = slot_parameters(plan, replica, slot);
  memory.parameters = parameters * value;
  memory.gradients = parameters * static_cast<std::uint64_t>(job.gradient_bytes());
  memory.optimizer = parameters * static_cast<std::uint64_t>(job.optimizer_bytes());
  const HeldMemory* held = held_memory(job);
  if (held != nullptr)
    memory.gradients += static_cast<std::uint64_t>(held->gradient_bytes * static_cast<double>(parameters));
  if (job.sharded() && plan.data_size() > 1) divide_among_replicas(plan, replica, slot, memory);
  if (keeps_fp8(job)) {  // each matrix as it is and transposed
    const bool dropped =
        replica_exchange(job.framework, job.sharding, slots).gather == ParameterGather::kEachPass;
    memory.parameters +=
        2 * slot_matrix_parameters(plan, replica, slot, dropped ? LayersHeld::kTwo : LayersHeld::kAll);
  }

  std::vector<HeldBytes> chunks;
  for (int chunk = 0; chunk < job.chunks; ++chunk) {
    const int number = chunk * slots + slot;
    chunks.push_back(chunk_bytes(plan, pipeline, pipeline.stages[at(number)], number == 0,
                                 number + 1 == static_cast<int>(pipeline.stages.size())));
  }
  memory.activations =
      most_held(operations_of(job.schedule, slot, slots, pipeline.micro_batches(), job.chunks), chunks);

  if (job.framework == Framework::kTombolo) {
    // The backward pass of a layer works in 5 boundaries (4 for the MLP's width, 1 for its own) and at most
    // one head's matrix of attention weights.
    const std::uint64_t scratch =
        5 * sizes.boundary + sizes.square + tombolo_shared_values(sizes, job.recompute);
    memory.buffers = (scratch + 3 * sizes.boundary + sizes.boundary) * value;
  } else {
    const auto tensor = static_cast<std::uint64_t>(plan.stage(slot, replica).tensor);
    if (slots > 1) memory.buffers += 2 * sizes.boundary * value;
    memory.buffers += context_buffers(job, sizes.boundary, tensor);
    memory.buffers += expert_buffers(job, sizes.boundary, tensor);
    // Of the bytes per logit, 4 are among the activations.
    const double logit = held != nullptr ? held->logit_bytes - 4 : 4;
    if (slot + 1 == slots)
      memory.buffers += static_cast<std::uint64_t>(logit * static_cast<double>(sizes.logits / tensor));
    if (held != nullptr) memory.buffers += static_cast<std::uint64_t>(held->bytes);
    // One layer at a time is computed again in full, or the weights of its attention.
    if (job.recompute != Recompute::kNone) {
      Job whole = job;
      whole.recompute = Recompute::kNone;
      const auto again = [&](Mlp mlp) {
        const auto held_of = [&](const Job& one) {
          return layer_activation_bytes(one, pipeline.micro_batch, static_cast<int>(tensor), mlp)
              .until_backward;
        };
        return held_of(whole) - (job.recompute == Recompute::kSelective ? held_of(job) : 0);
      };
      memory.buffers += model.experts == 0 ? again(Mlp::kDense)
                        : model.mixed()    ? std::max(again(Mlp::kDense), again(Mlp::kMixture))
                                           : again(Mlp::kMixture);
    }
  }
  if (job.profile) memory.buffers += job.profile->overhead_bytes;
  memory.total =
      memory.parameters + memory.gradients + memory.optimizer + memory.activations + memory.buffers;
  return memory;
}

std::uint64_t deferred_bytes(const Plan& plan, int replica, int slot) {
  const HeldMemory* held = held_memory(plan.job);
  const int stages = plan.pipeline_size(replica), tensor = plan.stage(slot, replica).tensor;
  if (held == nullptr || tensor == 1) return 0;
  double tensors = 0;
  if (stages == 1) tensors = held->deferred_alone;
  if (stages > 2 && tensor <= held->deferred_tensor) tensors = held->deferred_staged;
  return static_cast<std::uint64_t>(tensors * plan.job.model.boundary_bytes() *
                                    plan.pipelines[at(replica)].micro_batch / plan.job.context_parallel);
}

std::vector<RankMemory> memory_by_rank(const Plan& plan) {
  std::vector<std::vector<std::optional<RankMemory>>> known(plan.pipelines.size());
  // Replicas that are alike hold the same, so only the first of them is counted.
  std::vector<std::size_t> counted(plan.pipelines.size());
  for (std::size_t replica = 0; replica < plan.pipelines.size(); ++replica) {
    const auto alike = std::ranges::find(plan.pipelines, plan.pipelines[replica]);
    counted[replica] = static_cast<std::size_t>(alike - plan.pipelines.begin());
    known[replica].resize(at(plan.pipeline_size(static_cast<int>(replica))));
  }
  std::vector<RankMemory> result;
  result.reserve(plan.ranks.size());
  for (const RankPlacement& place : plan.ranks) {
    const std::size_t replica = counted[at(place.replica)];
    auto& memory = known[replica][at(place.stage)];
    if (!memory) memory = rank_memory(plan, static_cast<int>(replica), place.stage);
    result.push_back(*memory);
  }
  return result;
}

}  // namespace tombolo::planner
