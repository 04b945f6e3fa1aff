// A whole search for a plan, on one cluster and job.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "bench/micro/subjects.h"
#include "planner/planner.h"
#include "planner/strategies/strategy.h"
#include "planner/testing/testing.h"

namespace tombolo::bench::micro {
namespace {

/// The job has 24 layers, on two islands of 4 hosts with 4 devices each, one island half as fast. The search
/// is the same in every run, because the planner draws its random numbers from a fixed seed.
void measure_search(benchmark::State& state, std::string_view strategy) {
  using planner::testing::make_cluster;
  const auto cluster = make_cluster({{"a", 4, 4, topology::NicKind::kInfiniBand, 4e10, 3e14},
                                     {"b", 4, 4, topology::NicKind::kRoce, 2e10, 1.5e14}},
                                    3e9, 1e-5);
  planner::Job job;
  job.model = planner::testing::small_model(24);
  job.global_batch = 64;
  planner::PlanOptions options;
  options.strategy = strategy;
  for (auto _ : state) benchmark::DoNotOptimize(planner::make_plan(cluster, job, options));
}

}  // namespace

void register_search() {
  for (const std::string_view strategy : planner::strategy_names())
    benchmark::RegisterBenchmark(fmt::format("search/{}", strategy).c_str(), [strategy](
                                                                                 benchmark::State& state) {
      measure_search(state, strategy);
    })->Unit(benchmark::kMillisecond);
}

}  // namespace tombolo::bench::micro
