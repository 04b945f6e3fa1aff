// Pipette (arXiv 2405.18093): every grid of stages, replicas, tensor degree and micro-batch, with equal
// stages; groups that share layers are placed by the rates that the links between them attain.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "planner/cost/border.h"
#include "planner/cost/memory.h"
#include "planner/model/index.h"
#include "planner/plan/layer_split.h"
#include "planner/search/dedication.h"
#include "planner/search/grid.h"
#include "planner/strategies/strategy.h"

namespace tombolo::planner {

namespace {

/// A candidate's workers, in the order of their pipeline slots: tensor-parallel groups, or blocks of them.
struct Workers {
  std::vector<std::vector<int>> groups;
  int per_worker = 1;            ///< groups of a worker
  int stages = 1, replicas = 1;  ///< of workers: their grid
  DedicationCosts costs;
};

/// The times of sending between each two hosts with ranks, from so many `devices` of the one to as many of
/// the other.
class HostPaths {
 public:
  HostPaths(const SearchContext& context, int devices, NicUse nics)
      : site_of_(context.view.cluster().hosts.size(), -1) {
    std::vector<int> hosts;
    for (const LauncherSlot& slot : context.launcher_slots) {
      if (site_of_[at(slot.host)] >= 0) continue;
      site_of_[at(slot.host)] = static_cast<int>(hosts.size());
      hosts.push_back(slot.host);
    }
    sites_ = static_cast<int>(hosts.size());
    for (const int from : hosts)
      for (const int to : hosts) {
        PathCost cost;
        if (context.view.linked(from, to)) {
          const double rate = context.view.together(from, to, devices, devices, nics);
          cost = {rate > 0 ? 1 / rate : 0, context.view.path(from, to).latency_seconds};
        }
        paths_.push_back(cost);
      }
  }

  int sites() const noexcept { return sites_; }
  int site_of(int host) const { return site_of_[at(host)]; }
  /// Seconds of a message of so many bytes, from every site to every other.
  std::vector<double> seconds(double bytes) const {
    std::vector<double> all;
    all.reserve(paths_.size());
    for (const PathCost& cost : paths_) all.push_back(bytes * cost.seconds_per_byte + cost.latency_seconds);
    return all;
  }

 private:
  /// The cost is very high where no link is known, so that the search avoids it.
  struct PathCost {
    double seconds_per_byte = 0, latency_seconds = 1e9;
  };
  std::vector<int> site_of_;     // by host
  std::vector<PathCost> paths_;  // from every site to every other
  int sites_ = 0;
};

/// The groups that stay together: where the framework starts a node's ranks in a row, those of a host; 0
/// where a host's groups are neither replicas of one stage nor whole stages, so that hosts cannot change
/// places.
int groups_together(const SearchContext& context, const Job& job) {
  if (traits(job.framework).rank_order == RankOrder::kAny) return 1;
  const auto& slots = context.launcher_slots;
  const auto of_host =
      std::ranges::count(slots, slots.front().host, [](const LauncherSlot& slot) { return slot.host; });
  const int groups = static_cast<int>(of_host) / job.tensor;
  const bool whole = groups * job.tensor == static_cast<int>(of_host);
  return whole && (job.data % groups == 0 || groups % job.data == 0) ? groups : 0;
}

Workers workers_of(const SearchContext& context, const HostPaths& paths, const Plan& plan, int together) {
  Workers workers;
  const Job& job = plan.job;
  const auto slots = plan.ranks_by_slot();
  for (int stage = 0; stage < job.pipeline; ++stage)
    for (int replica = 0; replica < job.data; ++replica)
      workers.groups.push_back(slots[at(replica)][at(stage)]);
  workers.per_worker = together;
  workers.replicas = std::max(1, job.data / together);
  workers.stages = static_cast<int>(workers.groups.size()) / together / workers.replicas;
  // One of every `pipeline` micro-batches pays for the hops, on what Pipette calls the hidden critical path.
  const double turns = std::max(1.0, std::floor(static_cast<double>(plan.micro_batches()) / job.pipeline));
  const double activations =
      turns * border_bytes(job, job.model.boundary_bytes() * job.micro_batch / job.context_parallel,
                           job.tensor, job.tensor);
  const double gradients = 2.0 * (job.data - 1) / job.data * job.gradient_bytes() *
                           static_cast<double>(job.layer_parameters(0, job.model.layers)) / job.pipeline;
  DedicationCosts& costs = workers.costs;
  costs.workers = workers.stages * workers.replicas;
  for (int worker = 0; worker < costs.workers; ++worker) {
    const int rank = workers.groups[at(worker * together)].front();
    costs.sites.push_back(paths.site_of(context.launcher_slots[at(rank)].host));
  }
  costs.site_count = paths.sites();
  costs.activations = paths.seconds(activations);
  costs.gradients = paths.seconds(gradients);
  return workers;
}

/// Moves the workers to the slots that the search chose.
Plan dedicated(const SearchContext& context, const HostPaths& paths, const Plan& plan, int rounds) {
  const int together = groups_together(context, plan.job);
  if (together == 0) return plan;
  const Workers workers = workers_of(context, paths, plan, together);
  WorkerOrder order(at(workers.costs.workers));
  std::iota(order.begin(), order.end(), 0);
  order = dedicate(workers.costs, workers.stages, workers.replicas, std::move(order), rounds);
  Plan result = plan;
  for (int slot = 0; slot < static_cast<int>(workers.groups.size()); ++slot) {
    const int group = order[at(slot / together)] * together + slot % together;
    const std::vector<int>& ranks = workers.groups[at(group)];
    for (std::size_t tensor = 0; tensor < ranks.size(); ++tensor) {
      RankPlacement& place = result.ranks[at(ranks[tensor])];
      place.stage = slot / plan.job.data;
      place.replica = slot % plan.job.data;
      place.tensor = static_cast<int>(tensor);
    }
  }
  return result;
}

std::vector<int> even_split(int layers, int stages, const Placement&, const PlanOptions&) {
  return split_by_speed(layers, {1.0}, {stages}, 1);
}

constexpr GridRule kPipetteRule{.place = place_in_launcher_order, .split = even_split};

std::optional<Plan> pipette_plan(const SearchContext& context, const Job& job) {
  constexpr int kRounds = 2000, kFinalRounds = 50'000;
  std::vector<Candidate> candidates = enumerate(context, job, kPipetteRule).all;
  std::erase_if(candidates, [](const Candidate& one) { return one.missing_bytes > 0; });
  std::ranges::stable_sort(candidates, {}, &Candidate::bound);
  // Looked up once for all candidates of a tensor degree.
  std::map<int, HostPaths> known_paths;
  const auto paths = [&](const Plan& plan) -> const HostPaths& {
    const int degree = plan.job.tensor;
    return known_paths.try_emplace(degree, context, degree, traits(job.framework).nics).first->second;
  };
  std::optional<Plan> best;
  const auto consider = [&](Plan plan) {
    // devices may differ, so the new order may not fit
    if (missing_memory(plan, context.view).bytes > 0) return;
    const double limit = best ? best->prediction.step_seconds * (1 - 1e-9) : context.limit_seconds;
    const double worth = context.worth(limit);
    if (lower_bound(plan, context.view) >= worth) return;
    const auto step = context.step_time(plan, worth);
    if (!step) return;
    plan.prediction.step_seconds = step->seconds;
    plan.prediction.bubble_fraction = step->bubble_fraction;
    context.offer(plan);
    if (step->seconds < limit) best = std::move(plan);
  };
  for (Candidate& candidate : candidates) {
    // Where devices differ, another order may have a lower bound; but with equal stages that is no gain.
    const double known = best ? best->prediction.step_seconds : context.limit_seconds;
    if (candidate.bound >= context.worth(known)) continue;
    Plan placed = dedicated(context, paths(candidate.plan), candidate.plan, kRounds);
    consider(std::move(candidate.plan));
    consider(std::move(placed));
  }
  if (best) {
    Plan longer = dedicated(context, paths(*best), *best, kFinalRounds);
    consider(std::move(longer));
    best->prediction.memory = memory_by_rank(*best);
    best->notes.push_back("workers placed by what the links between them attain, stages equal");
  }
  return best;
}

}  // namespace

extern constinit const Strategy pipette_strategy{
    .name = "pipette",
    .help = "equal stages, ranks placed by what the links between them attain",
    .capabilities = {},
    .plan = pipette_plan,
};

}  // namespace tombolo::planner
