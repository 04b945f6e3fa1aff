#include "planner/search.h"

#include <algorithm>

#include "base/error.h"
#include "planner/layer_split.h"
#include "planner/memory.h"
#include "planner/step_graph.h"

namespace tombolo::planner {

namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

std::vector<int> divisors(int number) {
  std::vector<int> result;
  for (int i = 1; i <= number; ++i)
    if (number % i == 0) result.push_back(i);
  return result;
}

std::vector<int> layers_of(const Placement& placement, const Job& job, const PlanOptions& options) {
  if (options.strategy == Strategy::kMegatron)
    return std::vector<int>(at(job.pipeline), job.model.layers / job.pipeline);
  std::vector<double> speeds;
  std::vector<int> stages;
  for (const auto& span : placement.spans) {
    speeds.push_back(span.speed);
    stages.push_back(span.stages);
  }
  return split_by_speed(job.model.layers, speeds, stages, options.alpha);
}

/// The most that any rank of a stage lacks.
std::uint64_t missing_on_stage(const ClusterView& view, const Plan& plan, int stage, int layers) {
  const std::uint64_t needed = rank_memory(plan.job, stage, plan.pipeline_size(), layers).total;
  std::uint64_t most = 0;
  for (const RankPlace& place : plan.ranks)
    if (place.stage == stage) most = std::max(most, missing_on(view, place, needed));
  return most;
}

/// Moves layers, one by one, from stages that lack memory to the nearest stage that has room for one more.
void fit_layers(const ClusterView& view, Plan& plan) {
  const int stages = plan.pipeline_size();
  std::vector<int> layers;
  for (const Stage& stage : plan.stages) layers.push_back(stage.layers);
  const auto lacks = [&](int stage, int count) { return missing_on_stage(view, plan, stage, count) > 0; };
  int moved = 0;
  for (int stage = 0; stage < stages; ++stage) {
    while (layers[at(stage)] > 1 && lacks(stage, layers[at(stage)])) {
      int target = -1;
      for (int distance = 1; distance < stages && target < 0; ++distance)
        for (const int other : {stage + distance, stage - distance})
          if (other >= 0 && other < stages && !lacks(other, layers[at(other)] + 1)) {
            target = other;
            break;
          }
      if (target < 0) break;  // nowhere: the caller finds it missing
      --layers[at(stage)];
      ++layers[at(target)];
      ++moved;
    }
  }
  if (moved == 0) return;
  plan.stages = to_stages(layers);
  plan.notes.push_back(fmt::format("{} layers moved from stages that lacked memory for them", moved));
}

/// Two truths about any schedule: a stage's ranks compute all their micro-batches, after the first has passed
/// the stages before and before the last has gone back through them; and shared cores do all their work.
double lower_bound(const Plan& plan, const ClusterView& view) {
  const double micro_batches = plan.micro_batches();
  std::vector<double> stage_seconds(plan.stages.size(), 0.0);
  double on_shared = 0, optimizer = 0;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const StageCosts costs = stage_costs(plan, view, static_cast<int>(rank));
    const double seconds = costs.forward() + costs.backward();
    double& slowest = stage_seconds[at(plan.ranks[rank].stage)];
    slowest = std::max(slowest, seconds);
    optimizer = std::max(optimizer, costs.optimizer);
    if (view.shares_processor(view.host_index(plan.ranks[rank].host)))
      on_shared += micro_batches * seconds + costs.optimizer;
  }
  // The stages before are counted at the speed of their slowest replica, so the bound holds for the replica
  // that has it; with replicas of different speed it is taken only where it is safe: the stage itself.
  double before = 0, bound = 0;
  bool equal_replicas = true;
  for (std::size_t rank = 0; rank < plan.ranks.size() && equal_replicas; ++rank) {
    const StageCosts costs = stage_costs(plan, view, static_cast<int>(rank));
    equal_replicas = costs.forward() + costs.backward() == stage_seconds[at(plan.ranks[rank].stage)];
  }
  for (const double seconds : stage_seconds) {
    bound = std::max(bound, micro_batches * seconds + (equal_replicas ? before : 0));
    before += seconds;
  }
  bound += optimizer;
  if (view.cluster().shared_processor)
    bound = std::max(bound, on_shared / view.cluster().shared_processor->cores);
  return bound;
}

void add_candidates(const SearchContext& context, const Job& job, int pipeline, int data, Candidates& found) {
  const bool megatron = context.options.strategy == Strategy::kMegatron;
  const Placement placement = megatron
                                  ? place_in_launcher_order(context.kinds_view, context.slots, pipeline, data)
                                  : place_by_nic_kind(context.kinds_view, context.slots, pipeline, data);
  for (const int micro_batch : divisors(job.global_batch / data)) {
    if (job.micro_batch > 0 && micro_batch != job.micro_batch) continue;
    Candidate candidate;
    Plan& plan = candidate.plan;
    plan.strategy = strategy_name(context.options.strategy);
    plan.routing = context.options.routing;
    plan.job = job;
    plan.job.pipeline = pipeline;
    plan.job.data = data;
    plan.job.micro_batch = micro_batch;
    plan.ranks = placement.ranks;
    plan.stages = to_stages(layers_of(placement, plan.job, context.options));
    if (!megatron) fit_layers(context.view, plan);
    for (const RankPlace& place : plan.ranks) {
      const int layers = plan.stages[at(place.stage)].layers;
      plan.prediction.memory.push_back(rank_memory(plan.job, place.stage, pipeline, layers));
      const std::uint64_t missing = missing_on(context.view, place, plan.prediction.memory.back().total);
      if (missing <= candidate.missing_bytes) continue;
      candidate.missing_bytes = missing;
      candidate.missing_rank = static_cast<int>(plan.prediction.memory.size()) - 1;
    }
    candidate.groups_inside_kinds = placement.groups_inside_kinds;
    candidate.bound = lower_bound(plan, context.view);
    found.all.push_back(std::move(candidate));
  }
}

void check_fixed(const Job& job, int ranks) {
  if (job.pipeline > 0 && job.data > 0 && job.pipeline * job.data != ranks)
    fail(Cause::kInvalidUsage,
         "pipeline {} x data {} needs {} ranks, but there are {}; change one of them, or leave one open",
         job.pipeline, job.data, job.pipeline * job.data, ranks);
  for (const auto& [name, value] : {std::pair("pipeline", job.pipeline), std::pair("data", job.data)})
    if (value > 0 && ranks % value != 0)
      fail(Cause::kInvalidUsage, "{} {} does not divide the {} ranks; take a divisor of {}", name, value,
           ranks, ranks);
}

}  // namespace

std::uint64_t missing_on(const ClusterView& view, const RankPlace& place, std::uint64_t needed) {
  const auto& device = view.host(view.host_index(place.host)).devices[at(place.device)];
  if (device.memory_bytes <= 0) return 0;
  const auto available = static_cast<std::uint64_t>(device.memory_bytes);
  return needed > available ? needed - available : 0;
}

Candidates enumerate(const SearchContext& context, const Job& job) {
  const int ranks = static_cast<int>(context.slots.size());
  check_fixed(job, ranks);
  Candidates found;
  for (const int pipeline : divisors(ranks)) {
    const int data = ranks / pipeline;
    if ((job.pipeline > 0 && pipeline != job.pipeline) || (job.data > 0 && data != job.data)) continue;
    const std::string name = fmt::format("pipeline {} x data {}", pipeline, data);
    if (pipeline > job.model.layers) {
      found.excluded.push_back(fmt::format("{}: more stages than the {} layers", name, job.model.layers));
    } else if (context.options.strategy == Strategy::kMegatron && job.model.layers % pipeline != 0) {
      found.excluded.push_back(
          fmt::format("{}: {} layers do not divide into {} stages, as Megatron's default demands (the holmes "
                      "strategy can)",
                      name, job.model.layers, pipeline));
    } else if (job.global_batch % data != 0) {
      found.excluded.push_back(fmt::format("{}: a batch of {} rows does not divide into {} replicas", name,
                                           job.global_batch, data));
    } else if (job.micro_batch > 0 && job.global_batch / data % job.micro_batch != 0) {
      found.excluded.push_back(
          fmt::format("{}: the {} rows of a replica do not divide into micro-batches of {}", name,
                      job.global_batch / data, job.micro_batch));
    } else {
      add_candidates(context, job, pipeline, data, found);
    }
  }
  return found;
}

}  // namespace tombolo::planner
