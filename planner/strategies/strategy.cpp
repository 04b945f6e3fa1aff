#include "planner/strategies/strategy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/units.h"
#include "planner/cost/reserve.h"
#include "planner/model/index.h"
#include "planner/search/layout.h"

namespace tombolo::planner {

// This list has the order of help texts and of `auto`, which takes the earlier of two equally fast plans.
// Each file defines NAME_strategy.
#define TOMBOLO_PLANNER_STRATEGIES(LIST) \
  LIST(holmes)                           \
  LIST(megatron)                         \
  LIST(pipette)                          \
  LIST(flashflex)                        \
  LIST(auto)

#define TOMBOLO_DECLARE(NAME) extern const Strategy NAME##_strategy;
TOMBOLO_PLANNER_STRATEGIES(TOMBOLO_DECLARE)
#undef TOMBOLO_DECLARE

const std::vector<const Strategy*>& strategies() {
#define TOMBOLO_ADDRESS(NAME) &NAME##_strategy,
  static const std::vector<const Strategy*> all{TOMBOLO_PLANNER_STRATEGIES(TOMBOLO_ADDRESS)};
#undef TOMBOLO_ADDRESS
  return all;
}

const Strategy& strategy_named(std::string_view name) {
  const auto found = std::ranges::find(strategies(), name, &Strategy::name);
  if (found == strategies().end())
    fail(Cause::kInvalidUsage, "there is no strategy \"{}\"; take {}", name, alternatives(strategy_names()));
  return **found;
}

std::vector<std::string_view> strategy_names(std::vector<bool StrategyCapabilities::*> any_of, bool having) {
  std::vector<std::string_view> names;
  for (const Strategy* strategy : strategies()) {
    const bool has = any_of.empty() || std::ranges::any_of(any_of, [&](auto capability) {
                       return strategy->capabilities.*capability;
                     });
    if (has == having) names.push_back(strategy->name);
  }
  return names;
}

std::string alternatives(const std::vector<std::string_view>& names) {
  if (names.size() < 2) return fmt::format("{}", fmt::join(names, ""));
  return fmt::format("{} or {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

/// Plans that `auto` returns are those of other strategies and have these notes already.
void note_conditions(const SearchContext& context, Plan& plan) {
  const auto note = [&](std::string text) {
    if (std::ranges::find(plan.notes, text) == plan.notes.end()) plan.notes.push_back(std::move(text));
  };
  if (const auto kind = context.view.shared_kind())
    note(fmt::format("shared routing: everything over {}, the best kind that all ranks share",
                     topology::nic_kind_name(*kind)));
  const bool unknown = std::ranges::any_of(context.launcher_slots, [&](const LauncherSlot& slot) {
    return context.view.host(slot.host).devices[at(slot.device)].memory_bytes <= 0;
  });
  if (unknown) note("the cluster file does not say how much memory every device has: that was not checked");
  std::set<std::string> reserves;
  for (const LauncherSlot& slot : context.launcher_slots) {
    const topology::Device& device = context.view.host(slot.host).devices[at(slot.device)];
    if (const double bytes = reserved_memory(plan.job, device); bytes > 0 && device.memory_bytes > 0)
      reserves.insert(
          fmt::format("{} of each {}", format_size(static_cast<std::uint64_t>(bytes)), device.name));
  }
  if (!reserves.empty())
    note(fmt::format(
        "{} are kept free for CUDA's context, libraries, NCCL's buffers and fragments (--reserve)",
        fmt::join(reserves, ", ")));
  if (context.view.cluster().emulated) note("the cluster is emulated");
}

namespace {

std::optional<Plan> ask(const Strategy& strategy, const SearchContext& context, const Job& job) {
  PlanOptions options = context.options;
  options.strategy = strategy.name;
  return strategy.plan({context.view, context.kinds_view, context.launcher_slots, options,
                        context.limit_seconds, context.contenders, context.times},
                       job);
}

}  // namespace

std::optional<Plan> plan_by(const Strategy& strategy, const SearchContext& context, const Job& job) {
  if (std::optional<Plan> plan = ask(strategy, context, job)) {
    note_conditions(context, *plan);
    return plan;
  }
  if (context.limit_seconds < Scorer::kNever) return std::nullopt;
  // The first strategy's error says what would make a search succeed, so it is tried when this one has no
  // plan.
  const Strategy& other = *strategies().front();
  ask(other, context, job);
  fail(Cause::kInvalidUsage,
       "strategy {} finds no plan that fits; {} does. Take that, or leave more open (pipeline, data, "
       "tensor, micro-batch)",
       strategy.name, other.name);
}

}  // namespace tombolo::planner
