#include "planner/model/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "planner/model/index.h"
#include "planner/model/names.h"

namespace tombolo::planner {

namespace {

constexpr NameTable<TrainerDevice, 2> kDevices{
    {{TrainerDevice::kCpu, "cpu"}, {TrainerDevice::kCuda, "cuda"}}};

/// The number of parameters that one of `tensor` ranks holds.
std::uint64_t share_of(const Profile::Kind& kind, int tensor) {
  const auto ranks = static_cast<std::uint64_t>(tensor);
  return (kind.parameters - kind.replicated_parameters + ranks - 1) / ranks + kind.replicated_parameters;
}

}  // namespace

std::string_view trainer_device_name(TrainerDevice device) noexcept {
  return name_in(kDevices, device);
}

std::optional<TrainerDevice> trainer_device_from_name(std::string_view name) noexcept {
  return value_in(kDevices, name);
}

std::vector<Saving> savings_of(const Job& job) {
  std::vector<Saving> all;
  const FrameworkTraits& can = traits(job.framework);
  for (const Recompute recompute : can.recomputations) {
    if (recompute == Recompute::kSelective && !job.has_attention_weights()) continue;
    for (const Sharding sharding : job.pipeline > 1 ? can.staged_shardings : can.shardings)
      all.push_back({recompute, sharding, job.expert_parallel});
  }
  return all;
}

std::uint64_t Job::layer_parameters(int first, int count, int sharers) const {
  if (!profile || profile->kinds.empty())
    return model.layers_parameters(first, count, sharers, expert_parts());
  std::uint64_t sum = 0;
  for (int layer = first; layer < first + count; ++layer) {
    const Profile::Kind* kind = profile->find_kind(profile->kind_of(layer));
    sum += kind && kind->parameters > 0 ? share_of(*kind, sharers)
                                        : model.layers_parameters(layer, 1, sharers, expert_parts());
  }
  return sum;
}

std::uint64_t Job::expert_parameters(int first, int count, int sharers) const {
  if (expert_parts() == 1) return 0;
  return static_cast<std::uint64_t>(model.mixtures(first, count)) *
         static_cast<std::uint64_t>(model.experts / expert_parts()) * model.expert_parameters(sharers);
}

std::uint64_t Job::embedding_parameters(int sharers) const {
  const Profile::Kind* kind = profile ? profile->find_kind(Profile::kEmbedding) : nullptr;
  return kind && kind->parameters > 0 ? share_of(*kind, sharers) : model.embedding_parameters(sharers);
}

double Job::boundary_bytes(int layer) const {
  const Profile::Kind* kind = profile ? profile->find_kind(profile->kind_of(layer)) : nullptr;
  return kind && kind->output_bytes > 0 ? kind->output_bytes : model.boundary_bytes();
}

std::string Job::context_misfit(int sharers) const {
  if (context_parallel < 1)
    return fmt::format("context_parallel is {}, expected at least 1", context_parallel);
  if (context_parallel == 1) return {};
  if (model.context % (2 * context_parallel) != 0)
    return fmt::format("{} replicas cannot divide rows of {} tokens into two equal parts each",
                       context_parallel, model.context);
  if (context_exchange == ContextExchange::kAllToAll)
    for (const auto& [heads, of] :
         {std::pair(model.heads, ""), std::pair(model.key_value_heads(), " of keys")})
      if (heads % (sharers * context_parallel) != 0)
        return fmt::format(
            "{} heads{} do not divide among {} ranks, as the all-to-all of {} replicas needs; take "
            "the ring",
            heads, of, sharers * context_parallel, context_parallel);
  return {};
}

std::string Job::expert_misfit(int replicas) const {
  if (expert_parallel == 1) return {};
  if (expert_parallel < 1) return fmt::format("expert_parallel is {}, expected at least 1", expert_parallel);
  if (model.experts % expert_parallel != 0)
    return fmt::format("{} experts do not divide among {} replicas; take a divisor of {}", model.experts,
                       expert_parallel, model.experts);
  if (replicas % expert_parallel != 0)
    return fmt::format("{} replicas do not divide into groups of {} that divide the {} experts of a layer",
                       replicas, expert_parallel, model.experts);
  return {};
}

void Job::check() const {
  model.check();
  if (global_batch < 1)
    fail(Cause::kInvalidUsage, "job: global_batch is {}, expected rows > 0", global_batch);
  // Every micro-batch is simulated, so more rows than this would take too long.
  constexpr int kMostRows = 1'000'000;
  if (global_batch > kMostRows)
    fail(Cause::kInvalidUsage, "job: global_batch is {} rows, expected at most {}", global_batch, kMostRows);
  if (tensor > 1 && model.heads % tensor != 0)
    fail(Cause::kInvalidUsage,
         "job: {} tensor-parallel ranks cannot share {} heads evenly; take a divisor of {}", tensor,
         model.heads, model.heads);
  if (sequence_parallel && tensor == 1)
    fail(Cause::kInvalidUsage,
         "job: sequence parallelism divides what tensor-parallel ranks hold alike; it needs tensor > 1");
  if (interleaves(schedule) ? chunks < 2 : chunks != 1)
    fail(Cause::kInvalidUsage, "job: {} model chunks per stage with the {} schedule; {}", chunks,
         schedule_name(schedule),
         interleaves(schedule) ? "interleaving takes at least 2"
                               : "only the interleaved ones take more than 1");
  if (recompute_layers != 0 && recompute_layers != kAsNeeded && recompute != Recompute::kFull)
    fail(Cause::kInvalidUsage,
         "job: recompute_layers is {}, and recomputation {}; only whole layers, recomputation full, are "
         "counted so",
         recompute_layers, recompute_name(recompute));
  if (recompute_layers > 0 && (expert_parallel > 1 || context_parallel > 1))
    fail(Cause::kUnsupported,
         "job: {} layers of each chunk are to be computed again, and replicas to divide {}; that is not "
         "modelled, so recompute all layers or none",
         recompute_layers, expert_parallel > 1 ? "experts" : "rows");
  if (profile) profile->check(model);
  if (const std::string why = context_misfit(std::max(1, tensor)); !why.empty())
    fail(Cause::kInvalidUsage, "job: {}", why);
  if (context_parallel > 1 && profile)
    fail(Cause::kUnsupported,
         "job: the profile's layers were measured with whole rows, and {} replicas are to divide each; plan "
         "without "
         "the profile",
         context_parallel);
  if (context_parallel > 1 && !fused_attention)
    fail(Cause::kUnsupported,
         "job: {} replicas are to divide rows' tokens with attention that is not fused, which frameworks do "
         "not; leave one of both out",
         context_parallel);
  if (expert_parallel != 1 && model.experts == 0)
    fail(Cause::kInvalidUsage,
         "job: {} replicas are to divide the experts of a layer, and the model has none; leave "
         "expert_parallel out",
         expert_parallel);
  if (const std::string why = expert_misfit(data > 0 ? data : expert_parallel); !why.empty())
    fail(Cause::kInvalidUsage, "job: {}", why);
  if (expert_parallel > 1 && profile)
    fail(
        Cause::kUnsupported,
        "job: the profile's layers were measured with all experts on one rank, and {} replicas are to divide "
        "them; plan without the profile",
        expert_parallel);
  if (is_fp8(multiplies_in()) && model.bytes_per_value != 2)
    fail(Cause::kInvalidUsage,
         "job: products in {} take their operands from values of 2 bytes, and the model's have {}; plan with "
         "bytes=2",
         precision_name(multiplies_in()), model.bytes_per_value);
  if (framework != Framework::kTombolo) {
    if (device != TrainerDevice::kCpu || moment_bytes != 4)
      fail(
          Cause::kInvalidUsage,
          "job: device {} and moments of {} bytes are the bundled trainer's; leave them out for framework {}",
          trainer_device_name(device), moment_bytes, framework_name(framework));
    return;
  }
  const auto lacks = [](std::string_view what) {
    fail(Cause::kUnsupported, "job: the bundled trainer has no {}; plan for framework megatron", what);
  };
  if (tensor > 1) lacks("tensor parallelism");
  if (schedule != Schedule::kOneForwardOneBackward) lacks("schedule but 1f1b");
  if (sharded()) lacks("sharded optimizer");
  if (is_fp8(multiplies_in())) lacks("products in fp8");
  if (context_parallel > 1) lacks("context parallelism");
  if (model.experts > 0) lacks("mixtures of experts");
  if (model.latent()) lacks("latent attention");
  if (!software.empty()) lacks("choice of software whose constants count");
  if (recompute_layers > 0) lacks("recomputation of some layers of a stage alone");
  if (sends != StageSends::kBeside) lacks("blocking sends");
  if (!fused_attention) lacks("switch for fused attention: its device decides");
  if (on_cuda() && model.bytes_per_value != 2 && model.bytes_per_value != 4)
    fail(Cause::kUnsupported, "job: values of {} bytes on device cuda, which has 4 (fp32) and 2 (bf16)",
         model.bytes_per_value);
  if (moment_bytes != 4 && !(on_cuda() && moment_bytes == 2))
    fail(Cause::kUnsupported, "job: moments of {} bytes on device {}; they are 4 bytes, or 2 on cuda",
         moment_bytes, trainer_device_name(device));
}

}  // namespace tombolo::planner
