#include "tools/commands/plan_comparison.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "planner/plan/inexpressible.h"

namespace tombolo::tools {

bool states_memory(const topology::ClusterFile& cluster) {
  return std::ranges::any_of(cluster.hosts, [](const auto& host) {
    return std::ranges::any_of(host.devices, [](const auto& device) { return device.memory_bytes > 0; });
  });
}

std::string comparison(const topology::ClusterFile& cluster, const planner::Job& job,
                       planner::PlanOptions options, double step_seconds) {
  const bool default_order = options.strategy == "megatron";
  const double tolerance = options.tolerance;
  options.tolerance = 0;
  options.strategy = default_order ? "holmes" : "megatron";
  options.may_leave_out = false;  // these two give every rank a place
  const std::string name = default_order ? "holmes" : "megatron (the default order)";
  try {
    const double other = planner::make_plan(cluster, job, options).prediction.step_seconds;
    const double ratio = other / step_seconds;
    if (ratio < 1 - 1e-9 && step_seconds <= other * (1 + tolerance))
      return fmt::format(
          "For comparison, strategy {}: {} per step, {:.1f} % less; that counts as equally fast "
          "(--within {:g}).\n",
          name, format_seconds(other), 100 * (1 - ratio), 100 * tolerance);
    if (ratio < 1 - 1e-9)
      return fmt::format("Strategy {} is predicted to be faster here: {} per step, {:.2f}x. Try it.\n", name,
                         format_seconds(other), 1 / ratio);
    return fmt::format(
        "For comparison, strategy {}: {} per step; {}.\n", name, format_seconds(other),
        ratio < 1.005 ? "this plan is as fast" : fmt::format("this plan is {:.2f}x faster", ratio));
  } catch (const Error& error) {
    return fmt::format("For comparison, strategy {} has no plan: {}\n", name, error.what());
  }
}

std::string freer_gain(const topology::ClusterFile& cluster, planner::Job job, planner::PlanOptions options,
                       const planner::FixedChoices& fixed, const planner::Plan& plan) {
  constexpr std::size_t kMostRanks = 256;  // above, the second search would take minutes
  if (job.framework == planner::Framework::kTombolo || plan.ranks.size() > kMostRanks) return {};
  const planner::Framework limited = job.framework;
  job.framework = planner::Framework::kAny;
  planner::FixedChoices same = fixed;
  // What GPUs must have for it is no limit of the framework. A plan that shares no layers says nothing of it.
  const bool shares = std::ranges::any_of(plan.ranks, [](const auto& rank) { return rank.tensor > 0; });
  if (shares) same.overlap_tensor = plan.job.overlap_tensor;
  planner::open_choices(same, states_memory(cluster), job, options);
  options.tolerance = 0;
  try {
    const planner::Plan freer = planner::make_plan(cluster, job, options);
    const double gain = plan.prediction.step_seconds / freer.prediction.step_seconds;
    std::vector<std::string> lacks = planner::inexpressible(freer, limited);
    if (gain < 1.01 || lacks.empty()) return {};
    const std::string subject = std::string(planner::traits(limited).title) + ' ';
    for (std::size_t i = 1; i < lacks.size(); ++i)
      if (lacks[i].starts_with(subject)) lacks[i].erase(0, subject.size());
    return fmt::format("A framework without limits would take {} per step, {:.2f}x faster, but {}.\n",
                       format_seconds(freer.prediction.step_seconds), gain, fmt::join(lacks, ", "));
  } catch (const Error&) {
    return {};  // the comparison is an extra
  }
}

}  // namespace tombolo::tools
