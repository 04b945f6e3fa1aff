#include "tests/simulation/under.h"

#include "tests/simulation/runs/collective_run.h"
#include "tests/simulation/runs/connection_run.h"
#include "tests/simulation/runs/plugin_run.h"

namespace tombolo::simulation {

const char* name_of(Under under) {
  static constexpr const char* kNames[] = {"connection", "plugin", "collectives"};
  return kNames[static_cast<int>(under)];
}

Verdict run_seed(Under under, std::uint64_t seed, const RunOptions& options, Over over) {
  switch (under) {
    case Under::kConnection:
      return run_connection(draw_plan(seed, over), options);
    case Under::kPlugin:
      return run_plugin(draw_plugin_plan(seed, over), options);
    case Under::kCollectives:
      return run_collectives(draw_collective_plan(seed, over), options);
  }
  return {};
}

std::string describe_seed(Under under, std::uint64_t seed, Over over) {
  switch (under) {
    case Under::kConnection:
      return describe(draw_plan(seed, over));
    case Under::kPlugin:
      return describe(draw_plugin_plan(seed, over));
    case Under::kCollectives:
      return describe(draw_collective_plan(seed, over));
  }
  return {};
}

}  // namespace tombolo::simulation
