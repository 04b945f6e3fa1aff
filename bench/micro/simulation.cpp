// One step of a fixed plan in the planner's simulator.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "bench/micro/subjects.h"
#include "planner/plan/cluster_view.h"
#include "planner/simulate/simulator.h"
#include "planner/testing/testing.h"

namespace tombolo::bench::micro {
namespace {

/// The plan has 8 stages of 4 layers, 16 replicas and 32 micro-batches, on two clusters of 8 hosts with 8
/// devices each.
void measure_simulation(benchmark::State& state, bool spans) {
  using planner::testing::make_cluster;
  const auto cluster = make_cluster({{"a", 8, 8, topology::NicKind::kInfiniBand, 4e10, 3e14},
                                     {"b", 8, 8, topology::NicKind::kRoce, 2e10, 3e14}},
                                    3e9, 1e-5);
  std::vector<std::string> hosts;
  for (const auto& host : cluster.hosts) hosts.insert(hosts.end(), host.devices.size(), host.name);
  const planner::Plan plan =
      planner::testing::simple_plan(planner::testing::small_model(32), hosts, 8, 16, 32);
  const planner::ClusterView view(cluster, "per-peer", {});
  planner::SimulationOptions options;
  options.spans = spans;
  for (auto _ : state) benchmark::DoNotOptimize(planner::simulate(plan, view, options));
}

}  // namespace

void register_simulation() {
  benchmark::RegisterBenchmark("simulation/sums_only", [](benchmark::State& state) {
    measure_simulation(state, false);
  })->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("simulation/with_timeline", [](benchmark::State& state) {
    measure_simulation(state, true);
  })->Unit(benchmark::kMillisecond);
}

}  // namespace tombolo::bench::micro
