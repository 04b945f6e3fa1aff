#include "planner/search/contenders.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "planner/model/index.h"

namespace tombolo::planner {

namespace {

/// What plans of a kind have in common.
std::string kind_of(const Plan& plan, const ClusterView& view) {
  const Job& job = plan.job;
  std::string text = fmt::format("{} {} {} {} {} {} {} |", job.tensor, static_cast<int>(job.schedule),
                                 job.chunks, static_cast<int>(job.recompute), static_cast<int>(job.sharding),
                                 job.expert_parallel, job.micro_batch);
  // The clusters of each slot, in the order of the layers.
  std::vector<std::vector<std::set<std::string_view>>> clusters(plan.pipelines.size());
  for (int replica = 0; replica < plan.data_size(); ++replica)
    clusters[at(replica)].resize(at(plan.pipeline_size(replica)));
  for (const RankPlacement& rank : plan.ranks)
    clusters[at(rank.replica)][at(rank.stage)].insert(view.host(view.host_index(rank.host)).cluster);
  std::map<std::string, int> paths;  // and how many replicas take each
  for (const auto& pipeline : clusters) {
    std::string path;
    for (const auto& slot : pipeline) {
      for (const std::string_view one : slot) path += fmt::format("{}+", one);
      path += '>';
    }
    ++paths[path];
  }
  for (const auto& [path, count] : paths) text += fmt::format("{} {}", count, path);
  return text;
}

}  // namespace

void Contenders::offer(const Plan& plan, const ClusterView& view) {
  const double seconds = plan.prediction.step_seconds;
  if (!(seconds < most_seconds_)) return;
  const auto [known, added] = by_kind_.try_emplace(kind_of(plan, view), plan);
  if (!added && seconds < known->second.prediction.step_seconds) known->second = plan;
  const auto slower = [](const auto& one, const auto& other) {
    return one.second.prediction.step_seconds < other.second.prediction.step_seconds;
  };
  if (by_kind_.size() > kMostKinds) by_kind_.erase(std::ranges::max_element(by_kind_, slower));
  if (by_kind_.size() == kMostKinds)
    most_seconds_ = std::ranges::max_element(by_kind_, slower)->second.prediction.step_seconds;
}

std::vector<Plan> Contenders::ranked() const {
  std::vector<Plan> plans;
  for (const auto& [kind, plan] : by_kind_) plans.push_back(plan);
  std::ranges::stable_sort(plans, {}, [](const Plan& plan) { return plan.prediction.step_seconds; });
  return plans;
}

}  // namespace tombolo::planner
