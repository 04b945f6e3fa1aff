#include "planner/search/grid.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "planner/cost/memory.h"
#include "planner/model/index.h"
#include "planner/plan/inexpressible.h"
#include "planner/plan/layer_split.h"
#include "planner/search/layers_again.h"

namespace tombolo::planner {

namespace {

std::vector<int> divisors(int number) {
  std::vector<int> result;
  for (int i = 1; i <= number; ++i)
    if (number % i == 0) result.push_back(i);
  return result;
}

/// The number of layers of each virtual stage; all chunks of a stage have equally many.
std::vector<int> layers_of(const Placement& placement, const Job& job, const PlanOptions& options,
                           const GridRule& rule) {
  FrameworkTraits can = traits(job.framework);
  // All chunks of a stage are alike, so that what the first lacks some in the middle lack too.
  if (can.uneven_at_ends_alone && job.chunks > 1) can.uneven_layers = false;
  const std::vector<int> one =
      nearest_split(rule.split(job.model.layers / job.chunks, job.pipeline, placement, options), can);
  std::vector<int> all;
  for (int chunk = 0; chunk < job.chunks; ++chunk) all.insert(all.end(), one.begin(), one.end());
  return all;
}

std::vector<Stage> stages_of(const std::vector<int>& layers, const Job& job) {
  std::vector<Stage> stages = to_stages(layers);
  for (Stage& stage : stages) stage.tensor = job.tensor;
  return stages;
}

/// By stage, the memory of the device of its ranks that has least room; kBoundless where no size is known.
constexpr std::uint64_t kBoundless = std::numeric_limits<std::uint64_t>::max();
std::vector<std::uint64_t> room_by_stage(const ClusterView& view, const Plan& plan) {
  std::vector<std::uint64_t> room(at(plan.pipeline_size()), kBoundless);
  for (const RankPlacement& place : plan.ranks)
    if (const auto available = available_on(plan.job, view, place))
      room[at(place.stage)] = std::min(room[at(place.stage)], *available);
  return room;
}

/// The bytes that a rank of a stage would need if it held so many layers.
std::uint64_t needed_on_stage(const Plan& plan, int stage, int layers) {
  Plan tried;
  tried.job = plan.job;
  tried.pipelines = {plan.pipelines.front()};
  tried.pipelines.front().stages[at(stage)].layers = layers;
  return rank_memory(tried, 0, stage).total;
}

/// Moves layers, one by one, from stages that lack memory to the nearest stage that has room for one more,
/// and takes of what comes of it the nearest split that the framework can express.
void fit_layers(const ClusterView& view, Plan& plan) {
  const int stages = plan.pipeline_size();
  std::vector<int> layers;
  for (const Stage& stage : plan.stages()) layers.push_back(stage.layers);
  const std::vector<std::uint64_t> room = room_by_stage(view, plan);
  const auto lacks = [&](int stage, int count) {
    return room[at(stage)] < kBoundless && needed_on_stage(plan, stage, count) > room[at(stage)];
  };
  const std::vector<int> before = layers;
  for (int stage = 0; stage < stages; ++stage) {
    while (layers[at(stage)] > 1 && lacks(stage, layers[at(stage)])) {
      int target = -1;
      for (int distance = 1; distance < stages && target < 0; ++distance)
        for (const int other : {stage + distance, stage - distance})
          if (other >= 0 && other < stages && !lacks(other, layers[at(other)] + 1)) {
            target = other;
            break;
          }
      if (target < 0) break;  // no stage has room; the caller finds what is missing
      --layers[at(stage)];
      ++layers[at(target)];
    }
  }
  if (layers == before) return;
  layers = nearest_split(layers, traits(plan.job.framework));
  int moved = 0;
  for (int stage = 0; stage < stages; ++stage) moved += std::max(0, layers[at(stage)] - before[at(stage)]);
  if (moved == 0) return;
  plan.pipelines = equal_pipelines(plan.job, stages_of(layers, plan.job));
  plan.notes.push_back(fmt::format("{} layers moved from stages that lacked memory for them", moved));
}

/// Makes the candidate of a placement. One that does not fit in memory is returned too, with what it lacks.
Candidate assign(const SearchContext& context, const Job& job, const Placement& placement,
                 const GridRule& rule) {
  Candidate candidate;
  Plan& plan = candidate.plan;
  plan.strategy = context.options.strategy;
  plan.routing = context.options.routing;
  plan.job = job;
  plan.job.overlap_parameters = job.overlap_parameters && job.sharded() && job.data > 1;
  plan.ranks = placement.ranks;
  plan.pipelines = equal_pipelines(job, stages_of(layers_of(placement, job, context.options, rule), job));
  if (rule.moves_layers && job.chunks == 1) fit_layers(context.view, plan);
  settle_layers_again(plan, context.view);
  plan.prediction.memory = memory_by_rank(plan);
  const Missing missing = missing_memory(plan, plan.prediction.memory, context.view);
  candidate.missing_bytes = missing.bytes;
  candidate.missing_rank = missing.rank;
  candidate.groups_inside_kinds = placement.groups_inside_kinds;
  return candidate;
}

std::string name_of(const Grid& grid) {
  std::string name = fmt::format("pipeline {} x data {}", grid.pipeline, grid.data);
  return grid.tensor > 1 ? fmt::format("{} x tensor {}", name, grid.tensor) : name;
}

void add_candidates(const SearchContext& context, Job job, const Placement& placement, const GridRule& rule,
                    Candidates& found) {
  // A layout's sharding, and dividing its experts, may make it faster; computing again never does. So there
  // is a candidate for each of these, with the least recomputation with which it fits.
  std::map<std::pair<Sharding, int>, std::vector<Saving>> savings;
  std::vector<std::string> why_not;
  for (const Saving& saving : savings_of(context.options, job, at(job.data))) {
    job.set(saving);
    why_not = inexpressible(job, job.framework);
    if (why_not.empty()) savings[{saving.sharding, saving.expert_parallel}].push_back(saving);
  }
  if (savings.empty()) {
    found.excluded.push_back(
        fmt::format("{}: {}", name_of({job.pipeline, job.data, job.tensor}), why_not.front()));
    return;
  }
  const int fixed = job.micro_batch;
  for (const int micro_batch : divisors(job.replica_rows() / job.data)) {
    if (fixed > 0 && micro_batch != fixed) continue;
    job.micro_batch = micro_batch;
    if (job.chunks > 1 && job.replica_rows() / job.data / micro_batch % job.pipeline != 0) continue;
    std::vector<Candidate> fitting;
    Candidate closest;
    for (const auto& [shared, some] : savings) {
      Candidate candidate;
      for (const Saving& saving : some) {
        job.set(saving);
        candidate = assign(context, job, placement, rule);
        if (candidate.missing_bytes == 0) break;
      }
      if (candidate.missing_bytes == 0)
        fitting.push_back(std::move(candidate));
      else if (closest.missing_rank < 0 || candidate.missing_bytes < closest.missing_bytes)
        closest = std::move(candidate);
    }
    if (fitting.empty()) fitting.push_back(std::move(closest));
    std::string lacks;
    std::erase_if(fitting, [&](const Candidate& one) {
      const auto sentences = inexpressible(one.plan, job.framework);
      if (!sentences.empty()) lacks = sentences.front();
      return !sentences.empty();
    });
    if (fitting.empty()) {
      found.excluded.push_back(fmt::format("{}: {}", name_of({job.pipeline, job.data, job.tensor}), lacks));
      return;
    }
    for (Candidate& candidate : fitting) {
      candidate.bound = lower_bound(candidate.plan, context.view);
      found.all.push_back(std::move(candidate));
    }
  }
}

/// Why a grid is impossible; empty where it is not.
std::string excluded(const Job& job, const Grid& grid, const GridRule& rule) {
  const int stages = grid.pipeline * job.chunks;
  if (stages > job.model.layers)
    return fmt::format("{}: more stages than the {} layers", name_of(grid), job.model.layers);
  if (interleaves(job.schedule) && grid.pipeline < 2)
    return fmt::format("{}: interleaving takes at least 2 stages", name_of(grid));
  if (job.model.layers % job.chunks != 0)
    return fmt::format("{}: {} layers do not divide into {} chunks", name_of(grid), job.model.layers,
                       job.chunks);
  if (rule.equal_stages && job.model.layers % stages != 0)
    return fmt::format(
        "{}: {} layers do not divide into {} stages, as Megatron's default demands (the holmes "
        "strategy can)",
        name_of(grid), job.model.layers, stages);
  if (grid.data % job.context_parallel != 0)
    return fmt::format("{}: {} replicas do not divide into groups of {} that divide rows' tokens",
                       name_of(grid), grid.data, job.context_parallel);
  if (std::string why = job.context_misfit(grid.tensor); !why.empty())
    return fmt::format("{}: {}", name_of(grid), why);
  if (std::string why = job.expert_parallel > 0 ? job.expert_misfit(grid.data) : ""; !why.empty())
    return fmt::format("{}: {}", name_of(grid), why);
  if (job.replica_rows() % grid.data != 0)
    return fmt::format("{}: a batch of {} rows does not divide into {} replicas", name_of(grid),
                       job.global_batch, grid.data / job.context_parallel);
  if (job.micro_batch > 0 && job.replica_rows() / grid.data % job.micro_batch != 0)
    return fmt::format("{}: the {} rows of a replica do not divide into micro-batches of {}", name_of(grid),
                       job.replica_rows() / grid.data, job.micro_batch);
  if (const int most = job.replica_rows() / grid.data / std::max(1, job.micro_batch);
      interleaves(job.schedule) && most % grid.pipeline != 0)
    return fmt::format("{}: {} micro-batches per replica are no multiple of {} stages, as interleaving needs",
                       name_of(grid), most, grid.pipeline);
  return {};
}

void check_fixed(const Job& job, int ranks) {
  const int tensor = std::max(1, job.tensor);
  if (job.pipeline > 0 && job.data > 0 && job.pipeline * job.data * tensor != ranks)
    fail(Cause::kInvalidUsage,
         "pipeline {} x data {}{} needs {} ranks, but there are {}; change one of them, or leave one open",
         job.pipeline, job.data, tensor > 1 ? fmt::format(" x tensor {}", tensor) : "",
         job.pipeline * job.data * tensor, ranks);
  for (const auto& [name, value] :
       {std::pair("pipeline", job.pipeline), std::pair("data", job.data), std::pair("tensor", job.tensor)})
    if (value > 0 && ranks % value != 0)
      fail(Cause::kInvalidUsage, "{} {} does not divide the {} ranks; take a divisor of {}", name, value,
           ranks, ranks);
}

/// The tensor degrees to try: the job's, or where the job leaves it open all that divide the ranks and the
/// heads and fit on the devices of one host.
std::vector<int> tensor_degrees(const SearchContext& context, const Job& job, int ranks) {
  if (job.tensor > 0) return {job.tensor};
  if (!traits(job.framework).tensor_parallel) return {1};
  std::size_t most = 1;
  for (const LauncherSlot& slot : context.launcher_slots)
    most = std::max(most, context.view.host(slot.host).devices.size());
  std::vector<int> degrees;
  for (const int degree : divisors(ranks))
    if (at(degree) <= most && job.model.heads % degree == 0) degrees.push_back(degree);
  return degrees;
}

}  // namespace

Candidates enumerate(const SearchContext& context, const Job& job, const GridRule& rule) {
  const int ranks = static_cast<int>(context.launcher_slots.size());
  check_fixed(job, ranks);
  auto schedules = context.options.schedules;
  if (schedules.empty()) schedules = {{job.schedule, job.chunks}};
  Candidates found;
  for (const int tensor : tensor_degrees(context, job, ranks))
    for (const int pipeline : divisors(ranks / tensor)) {
      const Grid grid{pipeline, ranks / tensor / pipeline, tensor};
      if ((job.pipeline > 0 && pipeline != job.pipeline) || (job.data > 0 && grid.data != job.data)) continue;
      std::optional<Placement> placement;
      for (const auto& [schedule, chunks] : schedules) {
        Job one = job;
        one.pipeline = pipeline;
        one.data = grid.data;
        one.tensor = tensor;
        one.schedule = schedule;
        one.chunks = chunks;
        if (tensor == 1) one.sequence_parallel = false;
        one.overlap_tensor &= one.sequence_parallel;
        if (std::string why = excluded(one, grid, rule); !why.empty()) {
          found.excluded.push_back(std::move(why));
          continue;
        }
        if (!placement) placement = rule.place(context.kinds_view, context.launcher_slots, grid);
        // Where the tensor degree is open, ranks that share layers stay inside their hosts.
        if (job.tensor == 0 && !placement->tensor_inside_hosts) {
          found.excluded.push_back(
              fmt::format("{}: ranks that share layers would be on several hosts", name_of(grid)));
          break;
        }
        add_candidates(context, one, *placement, rule, found);
      }
    }
  return found;
}

}  // namespace tombolo::planner
