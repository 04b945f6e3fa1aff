// Megatron-LM's default: ranks in the launcher's order, equal layers.
#include "planner/strategies/grid_plan.h"
#include "planner/strategies/strategy.h"

namespace tombolo::planner {

namespace {

std::vector<int> equal_split(int layers, int stages, const Placement&, const PlanOptions&) {
  return std::vector<int>(static_cast<std::size_t>(stages), layers / stages);
}

constexpr GridRule kMegatronRule{
    .place = place_in_launcher_order, .split = equal_split, .equal_stages = true};

std::optional<Plan> megatron_plan(const SearchContext& context, const Job& job) {
  auto found = grid_plan(context, job, kMegatronRule);
  if (!found) return std::nullopt;
  found->plan.notes.push_back(
      "ranks in launcher order (rank r: stage r / data, replica r % data), equal layers: Megatron's default");
  return std::move(found->plan);
}

}  // namespace

extern constinit const Strategy megatron_strategy{
    .name = "megatron",
    .help = "ranks in the launcher's order, equal layers: Megatron-LM's default",
    .capabilities = {},
    .plan = megatron_plan,
};

}  // namespace tombolo::planner
