// Holmes (arXiv 2312.03549): clusters, sorted by NIC kind, fill whole stages; layers follow attained speed.
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/units.h"
#include "planner/plan/layer_split.h"
#include "planner/strategies/grid_plan.h"
#include "planner/strategies/strategy.h"

namespace tombolo::planner {

namespace {

/// Sorts ranks by (NIC kind inside their cluster, cluster, rank) before it applies Megatron's rule, so that
/// clusters fill whole stages wherever data x tensor divides their size.
Placement place_by_nic_kind(const ClusterView& view, const std::vector<LauncherSlot>& slots,
                            const Grid& grid) {
  const auto kinds = cluster_kinds(view, slots);
  std::map<std::string, std::size_t> first_seen;
  for (std::size_t rank = 0; rank < slots.size(); ++rank)
    first_seen.try_emplace(view.host(slots[rank].host).cluster, rank);
  std::vector<std::size_t> order = launcher_order(slots.size());
  std::ranges::stable_sort(order, {}, [&](std::size_t rank) {
    const std::string& cluster = view.host(slots[rank].host).cluster;
    return std::tuple(kinds.at(cluster), first_seen.at(cluster));
  });
  return place_in_order(view, slots, order, grid);
}

std::vector<int> split_by_attained_speed(int layers, int, const Placement& placement,
                                         const PlanOptions& options) {
  std::vector<double> speeds;
  std::vector<int> stages;
  for (const Placement::Span& span : placement.spans) {
    speeds.push_back(span.speed);
    stages.push_back(span.stages);
  }
  return split_by_speed(layers, speeds, stages, options.alpha);
}

constexpr GridRule kHolmesRule{.place = place_by_nic_kind,
                               .split = split_by_attained_speed,
                               .moves_layers = true,
                               .keeps_groups_inside_kinds = true};

/// Describes which cluster holds which stages.
std::string spans_text(const SearchContext& context, const Job& job) {
  const Placement placement =
      place_by_nic_kind(context.kinds_view, context.launcher_slots, {job.pipeline, job.data, job.tensor});
  const auto kinds = cluster_kinds(context.kinds_view, context.launcher_slots);
  std::vector<std::string> spans;
  int first = 0;
  for (const Placement::Span& span : placement.spans) {
    const std::string stages = span.stages == 1 ? fmt::format("stage {}", first)
                                                : fmt::format("stages {}-{}", first, first + span.stages - 1);
    spans.push_back(fmt::format("{} ({}, {}) {}", span.cluster,
                                topology::nic_kind_name(kinds.at(span.cluster)), format_flops(span.speed),
                                stages));
    first += span.stages;
  }
  return fmt::format("{}", fmt::join(spans, "; "));
}

std::optional<Plan> holmes_plan(const SearchContext& context, const Job& job) {
  auto found = grid_plan(context, job, kHolmesRule);
  if (!found) return std::nullopt;
  Plan& plan = found->plan;
  plan.notes.push_back("clusters by NIC kind, layers by attained speed: " + spans_text(context, plan.job));
  if (!found->groups_inside_kinds)
    plan.notes.push_back(
        "a gradient group spans clusters of different NIC kinds: no layout that fits avoids it");
  return std::move(plan);
}

}  // namespace

extern constinit const Strategy holmes_strategy{
    .name = "holmes",
    .help =
        "clusters, sorted by NIC kind, fill whole pipeline stages, so that gradients stay on fast NICs\n"
        "and only the pipeline crosses; layers by attained speed",
    .capabilities = {},
    .plan = holmes_plan,
};

}  // namespace tombolo::planner
