#include "planner/explain/reasons.h"

#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "planner/cost/memory.h"
#include "planner/cost/reserve.h"
#include "planner/model/index.h"
#include "planner/plan/inexpressible.h"
#include "planner/plan/model_chunks.h"
#include "planner/simulate/simulator.h"

namespace tombolo::planner {

namespace {

/// What the rank may use of its device's memory; 0 = unknown.
double memory_for(const Job& job, const RankPlacement& place, const topology::ClusterFile& cluster) {
  const topology::Host* host = cluster.find_host(place.host);
  if (!host || at(place.device) >= host->devices.size()) return 0;
  return usable_memory(job, host->devices[at(place.device)]);
}

/// "rank 3 on a1 would need 93.1 GiB where it may use 75.9 GiB" of the rank that lacks most; empty where all
/// fit.
std::string lacking(const Plan& plan, const topology::ClusterFile& cluster) {
  const std::vector<RankMemory> memory = memory_by_rank(plan);
  double most = 0;
  std::string text;
  for (std::size_t rank = 0; rank < memory.size(); ++rank) {
    const double has = memory_for(plan.job, plan.ranks[rank], cluster);
    const double lacks = static_cast<double>(memory[rank].total) - has;
    if (has == 0 || lacks <= most) continue;
    most = lacks;
    // Other frameworks number ranks in their own way.
    const std::string name =
        plan.job.framework == Framework::kTombolo ? fmt::format("rank {}", rank) : "a rank";
    text = fmt::format("{} on {} would need {} where it may use {}", name, plan.ranks[rank].host,
                       format_size(memory[rank].total), format_size(static_cast<std::uint64_t>(has)));
  }
  return text;
}

std::uint64_t most_memory(const Plan& plan) {
  std::uint64_t most = 0;
  for (const RankMemory& memory : memory_by_rank(plan)) most = std::max(most, memory.total);
  return most;
}

/// What the plan would be without a choice, in words that follow "without": memory that lacks, or another
/// time, or more memory.
std::string outcome(const Plan& without, const Plan& plan, const topology::ClusterFile& cluster) {
  try {
    without.job.check();
    if (std::string text = lacking(without, cluster); !text.empty()) return text;
    const double step = simulate(without, cluster, {.spans = false}).step_seconds;
    const double ratio = step / plan.prediction.step_seconds;
    if (ratio > 0.995 && ratio < 1.005) {
      const std::uint64_t with = most_memory(plan), then = most_memory(without);
      return then <= with ? "a step would take as long"
                          : fmt::format("a step would take as long, with up to {} more on a rank",
                                        format_size(then - with));
    }
    return fmt::format("a step would take {} ({:.2f}x)", format_seconds(step), ratio);
  } catch (const Error& error) {
    return error.what();
  }
}

/// The plan with whole rows on each replica: only its memory is looked at, without the weights of attention,
/// which replicas that divide rows do not keep either.
std::string without_context(const Plan& plan, const topology::ClusterFile& cluster) {
  Plan whole = plan;
  whole.job.context_parallel = 1;
  if (whole.job.recompute == Recompute::kNone) whole.job.recompute = Recompute::kSelective;
  std::string text = lacking(whole, cluster);
  return text.empty() ? "" : fmt::format(": with whole rows {}", text);
}

/// The plan with all experts on each replica.
std::string without_experts_divided(const Plan& plan, const topology::ClusterFile& cluster) {
  Plan whole = plan;
  whole.job.expert_parallel = 1;
  return outcome(whole, plan, cluster);
}

/// The plan with whole layers on each rank: only its memory is looked at, since its ranks are not enough for
/// its places.
std::string without_tensor(const Plan& plan, const topology::ClusterFile& cluster) {
  Plan whole = plan;
  whole.job.tensor = 1;
  whole.job.sequence_parallel = false;
  for (Pipeline& pipeline : whole.pipelines)
    for (Stage& stage : pipeline.stages) stage.tensor = 1;
  std::string text = lacking(whole, cluster);
  return text.empty() ? "" : fmt::format("with whole layers {}", text);
}

Plan without_chunks(const Plan& plan) {
  Plan other = plan;
  other.job.schedule = Schedule::kOneForwardOneBackward;
  other.job.chunks = 1;
  for (int replica = 0; replica < plan.data_size(); ++replica) {
    std::vector<Stage> stages;
    int first = 0;
    for (int slot = 0; slot < plan.pipeline_size(replica); ++slot) {
      stages.push_back({first, plan.layers_at(slot, replica), plan.stage(slot, replica).tensor});
      first += stages.back().layers;
    }
    other.pipelines[at(replica)].stages = std::move(stages);
  }
  return other;
}

/// Why a pipeline that is not interleaved is not; empty where there is none, or the framework cannot.
std::string with_chunks(const Plan& plan, const topology::ClusterFile& cluster) {
  constexpr int kChunks = 2;
  constexpr std::size_t kMostRanks = 512;  // above, simulating it takes seconds
  if (plan.job.schedule != Schedule::kOneForwardOneBackward || plan.pipeline_size() == 1 ||
      plan.ranks.size() > kMostRanks)
    return {};
  Job job = plan.job;
  job.schedule = Schedule::kInterleaved;
  job.chunks = kChunks;
  if (!inexpressible(job, job.framework).empty()) return {};
  const InChunks other = in_chunks(plan, kChunks);
  if (!other.plan) return fmt::format("not interleaved{}", other.why_not);
  if (!inexpressible(*other.plan, job.framework).empty()) return {};
  return fmt::format("not interleaved: with {} model chunks per stage, {}", kChunks,
                     outcome(*other.plan, plan, cluster));
}

/// The plan with exchanges of ranks that share layers beside products; nothing where its framework cannot.
std::optional<Plan> plan_with_overlap(const Plan& plan) {
  Plan other = plan;
  other.job.overlap_tensor = true;
  if (!inexpressible(other, other.job.framework).empty()) return std::nullopt;
  return other;
}

/// What keeps those exchanges from going beside products by default.
std::string_view why_no_overlap(const Job& job) {
  if (traits(job.framework).tensor_overlap_compiles) return "which takes compiled layers and NVLink";
  if (job.model.experts > 0) return "which is not asked for where layers have experts";
  return "which takes Transformer Engine and NVLink, and by default GPUs with multicast, as Hopper has";
}

std::string sharding_text(Sharding sharding) {
  switch (sharding) {
    case Sharding::kNone:
      break;
    case Sharding::kOptimizer:
      return "the optimizer's state";
    case Sharding::kGradients:
      return "gradients and the optimizer's state";
    case Sharding::kParameters:
      return "parameters, gradients and the optimizer's state";
  }
  return "nothing";
}

/// How the engine is expected to reduce gradients: of each way the call that takes longest.
std::vector<std::string> reductions_in_words(const std::vector<ExpectedReduction>& reductions) {
  std::map<std::pair<std::string, std::uint64_t>, ExpectedReduction> ways;
  for (const ExpectedReduction& one : reductions) {
    const auto [entry, added] = ways.try_emplace({one.algorithm, one.piece_bytes}, one);
    if (added) continue;
    const int calls = entry->second.calls + one.calls;
    if (one.seconds > entry->second.seconds) entry->second = one;
    entry->second.calls = calls;
  }
  std::vector<std::string> texts;
  for (const auto& [way, one] : ways)
    texts.push_back(fmt::format(
        "the engine is expected to reduce gradients by {}{}, {} per step, the longest {} in {} with the "
        "links to "
        "itself: {}",
        way.first, way.second > 0 ? " in pieces of " + format_size(way.second) : "",
        counted(one.calls, "call"), format_size(one.bytes), format_seconds(one.seconds), one.why));
  return texts;
}

}  // namespace

std::vector<std::string> reasons_of(const Plan& plan, const topology::ClusterFile& cluster) {
  const Job& job = plan.job;
  std::vector<std::string> reasons;
  const auto changed = [&](auto change) {
    Plan other = plan;
    change(other.job);
    return outcome(other, plan, cluster);
  };
  const auto add = [&]<typename... Values>(fmt::format_string<Values...> text, Values&&... values) {
    reasons.push_back(fmt::format(text, std::forward<Values>(values)...));
  };
  if (job.tensor > 1) {
    const std::string why = without_tensor(plan, cluster);
    add("{} ranks share each layer (tensor parallelism){}{}", job.tensor, why.empty() ? "" : ": ", why);
  }
  if (job.sequence_parallel)
    add("they divide the sequence where they would hold the same: without, {}",
        changed([](Job& other) { other.sequence_parallel = false; }));
  if (job.tensor > 1 && job.overlap_tensor)
    add("they exchange beside matrix products: without (--no-overlap-tensor), {}",
        changed([](Job& other) { other.overlap_tensor = false; }));
  else if (job.tensor > 1 && traits(job.framework).tensor_overlap && plan_with_overlap(plan))
    add("they do not exchange beside matrix products, {}; with --overlap-tensor {}", why_no_overlap(job),
        outcome(*plan_with_overlap(plan), plan, cluster));
  if (job.context_parallel > 1)
    add("{} replicas divide each row's tokens (context parallelism, {}){}", job.context_parallel,
        context_exchange_name(job.context_exchange), without_context(plan, cluster));
  if (job.expert_parallel > 1)
    add("{} replicas divide the {} experts of a layer, {} on each (expert parallelism): with all on each, {}",
        job.expert_parallel, job.model.experts, job.model.experts / job.expert_parallel,
        without_experts_divided(plan, cluster));
  if (job.expert_load() > 1)
    add("the rank with most tokens for its experts is taken to get {:.4g} times the mean, as measured "
        "(expert_imbalance), and the others wait for it: with even routing, {}",
        job.expert_load(), changed([](Job& other) { other.model.expert_imbalance = 1; }));
  const auto whole = [](Job& other) {
    other.recompute = Recompute::kNone;
    other.recompute_layers = 0;
  };
  if (job.recompute == Recompute::kFull && job.recompute_layers > 0)
    add("{} of each {} computed again: with one less, {}; with all, {}",
        counted(job.recompute_layers, "layer"), job.chunks > 1 ? "model chunk" : "stage",
        changed([&](Job& other) {
          if (--other.recompute_layers == 0) whole(other);
        }),
        changed([](Job& other) { other.recompute_layers = 0; }));
  else if (job.recompute != Recompute::kNone)
    add("{} recomputation: without, {}", recompute_name(job.recompute), changed(whole));
  if (is_fp8(job.multiplies_in()))
    add("products of matrices in {}: in bf16 {}", precision_name(job.multiplies_in()),
        changed([](Job& other) { other.precision = Precision::kBf16; }));
  if (interleaves(job.schedule))
    add("schedule {}, {} model chunks per stage: with 1f1b {}", schedule_name(job.schedule), job.chunks,
        outcome(without_chunks(plan), plan, cluster));
  else if (job.schedule != Schedule::kOneForwardOneBackward)
    add("schedule {}: with 1f1b {}", schedule_name(job.schedule),
        changed([](Job& other) { other.schedule = Schedule::kOneForwardOneBackward; }));
  if (job.sharded() && plan.data_size() > 1)
    add("replicas share {}: without, {}", sharding_text(job.sharding),
        changed([](Job& other) { other.sharding = Sharding::kNone; }));
  if (std::string text = with_chunks(plan, cluster); !text.empty()) reasons.push_back(std::move(text));
  for (std::string& text : reductions_in_words(plan.prediction.reductions))
    reasons.push_back(std::move(text));
  std::vector<std::string> unused;
  if (job.framework != Framework::kTombolo) {
    if (job.tensor == 1) unused.emplace_back("tensor parallelism");
    if (!job.sharded() && plan.data_size() > 1) unused.emplace_back("sharding among replicas");
    if (job.model.experts > 0 && job.expert_parallel == 1) unused.emplace_back("expert parallelism");
  }
  if (job.recompute == Recompute::kNone) unused.emplace_back("recomputation");
  if (!unused.empty()) add("fits without {}", fmt::join(unused, ", "));
  return reasons;
}

}  // namespace tombolo::planner
