#include "tests/simulation/under.h"

#include "tests/simulation/runs/collective_run.h"
#include "tests/simulation/runs/connection_run.h"
#include "tests/simulation/runs/plugin_run.h"

namespace tombolo::simulation {
namespace {

Verdict run_kind(const Plan& plan, const RunOptions& options) {
  return run_connection(plan, options);
}
Verdict run_kind(const PluginPlan& plan, const RunOptions& options) {
  return run_plugin(plan, options);
}
Verdict run_kind(const CollectivePlan& plan, const RunOptions& options) {
  return run_collectives(plan, options);
}

}  // namespace

const char* name_of(Under under) {
  static constexpr const char* kNames[] = {"connection", "plugin", "collectives"};
  return kNames[static_cast<int>(under)];
}

AnyPlan draw_plan(Under under, std::uint64_t seed, Over over) {
  switch (under) {
    case Under::kConnection:
      return draw_plan(seed, over);
    case Under::kPlugin:
      return draw_plugin_plan(seed, over);
    case Under::kCollectives:
      return draw_collective_plan(seed, over);
  }
  return {};
}

AnyPlan decode_plan(Under under, std::string_view text, const std::string& source) {
  switch (under) {
    case Under::kConnection:
      return decode_plan(text, source);
    case Under::kPlugin:
      return decode_plugin_plan(text, source);
    case Under::kCollectives:
      return decode_collective_plan(text, source);
  }
  return {};
}

std::string encode(const AnyPlan& plan) {
  return std::visit([](const auto& one) { return encode(one); }, plan);
}

std::string describe(const AnyPlan& plan) {
  return std::visit([](const auto& one) { return describe(one); }, plan);
}

Verdict run_plan(const AnyPlan& plan, const RunOptions& options) {
  return std::visit([&](const auto& one) { return run_kind(one, options); }, plan);
}

}  // namespace tombolo::simulation
