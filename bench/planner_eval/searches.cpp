// Evaluates the searches on random and on large clusters: the plans that they find, and the time that they
// take.
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <ctime>
#include <functional>
#include <future>
#include <mutex>
#include <random>
#include <thread>

#include "base/error.h"
#include "bench/planner_eval/clusters.h"
#include "bench/planner_eval/measured_grid.h"
#include "bench/planner_eval/report.h"
#include "planner/choices.h"
#include "planner/model/model_library.h"
#include "planner/strategies/strategy.h"
#include "planner/testing/testing_search.h"
#include "topology/files/fleet.h"

namespace tombolo::bench {

namespace {

using namespace planner;

/// Two halls of so many hosts of 8 H100 each, which share 400 Gbit/s: with 64 the cluster of
/// examples/fleets/two_halls.json.
topology::ClusterFile two_halls(int hosts) {
  constexpr std::string_view kHall =
      R"({{"name": "{}", "hosts": {}, "devices": {{"name": "H100", "count": 8}},
   "nics": [{{"name": "ConnectX-7 NDR", "count": 8, "kind": "infiniband"}}, {{"name": "Ethernet 100G"}}]}})";
  const std::string fleet = fmt::format(
      R"({{"tombolo_fleet": 1, "clusters": [{}, {}],
 "between": [{{"from": "north", "to": "south", "total_gbps": 400, "latency_seconds": 0.01}}]}})",
      fmt::format(kHall, "north", hosts), fmt::format(kHall, "south", hosts));
  return topology::expand_fleet(JsonDocument::parse(fleet, "fleet"), topology::Library::load());
}

using testing::Everything;
using testing::random_cluster;
using testing::random_job;

/// A random job of 2 to `most_layers` layers and 1 to `most_rows` rows.
Job between(std::mt19937_64& random, int most_layers, int most_rows) {
  const int layers = std::uniform_int_distribution(2, most_layers)(random);
  return random_job(random, layers, std::uniform_int_distribution(1, most_rows)(random));
}

double seconds_by(const topology::ClusterFile& cluster, const Job& job, std::string_view strategy) {
  PlanOptions options;
  options.strategy = strategy;
  try {
    return make_plan(cluster, job, options).prediction.step_seconds;
  } catch (const Error&) {
    return Scorer::kNever;
  }
}

struct Draw {
  topology::ClusterFile cluster;
  Job job;
};

/// Runs all trials on all cores; returns the numbers of those that fail, in order.
std::vector<int> failing(const std::vector<Draw>& trials, const std::function<bool(const Draw&)>& passes) {
  std::atomic<std::size_t> next{0};
  std::mutex lock;
  std::vector<int> failed;
  std::vector<std::future<void>> workers;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i)
    workers.push_back(std::async(std::launch::async, [&] {
      for (std::size_t one = next++; one < trials.size(); one = next++) {
        if (passes(trials[one])) continue;
        const std::lock_guard guard(lock);
        failed.push_back(static_cast<int>(one));
      }
    }));
  for (auto& worker : workers) worker.get();
  std::ranges::sort(failed);
  return failed;
}

bool equals_exhaustive_search(const Draw& trial) {
  const double best = Everything(trial.cluster, trial.job).best();
  const double found = seconds_by(trial.cluster, trial.job, "auto");
  return best == found || std::abs(found / best - 1) < 1e-8;
}

bool no_other_is_better(const Draw& trial) {
  const double best = seconds_by(trial.cluster, trial.job, "auto");
  return std::ranges::all_of(strategy_names({&StrategyCapabilities::asks_others}, false),
                             [&](std::string_view other) {
                               return best <= seconds_by(trial.cluster, trial.job, other) * (1 + 1e-9);
                             });
}

}  // namespace

void evaluate_random(const EvaluationOptions& options, EvaluationReport& report) {
  report.section("auto on random clusters");
  std::mt19937_64 random(options.seed);
  std::vector<Draw> small, large;
  for (int trial = 0; trial < options.trials / 4; ++trial) {
    const int devices = 1 + trial % 6;
    topology::ClusterFile cluster = random_cluster(random, devices);
    small.push_back({std::move(cluster), between(random, devices > 4 ? 3 : 5, devices > 4 ? 3 : 5)});
  }
  for (int trial = 0; trial < options.trials; ++trial) {
    topology::ClusterFile cluster = random_cluster(random, 7 + static_cast<int>(random() % 10));
    large.push_back({std::move(cluster), between(random, 12, 16)});
  }
  const std::vector<int> unequal = failing(small, equals_exhaustive_search);
  report.line("clusters of up to 6 GPUs on which auto equals exhaustive search",
              fmt::format("{} of {}", small.size(), small.size()),
              fmt::format("{} of {}", small.size() - unequal.size(), small.size()), unequal.empty());
  const std::vector<int> worse = failing(large, no_other_is_better);
  report.line(fmt::format("larger clusters, of {}, on which another is better", large.size()), "0",
              std::to_string(worse.size()), worse.empty());
  report.note(fmt::format("Seed {}. The exhaustive search visits every layout: no bounds, no symmetry.",
                          options.seed));
  if (!unequal.empty()) report.note(fmt::format("Not equal: trials {}.", fmt::join(unequal, ", ")));
  if (!worse.empty()) report.note(fmt::format("Another is better: trials {}.", fmt::join(worse, ", ")));
}

void evaluate_scale(const EvaluationOptions& options, EvaluationReport& report) {
  report.section("Time and memory of searches");
  struct Size {
    int hosts;
    double seconds;
    Job job;
  };
  const Job seven = llama_job(32, 4096, 32, 256, 32000, 512),
            seventy = llama_job(80, 8192, 64, 256, 32000, 2048);
  const auto measure = [&](std::string_view name, const topology::ClusterFile& cluster, Job job,
                           double most_seconds, std::string_view strategy) {
    const std::clock_t start = std::clock();
    job.framework = Framework::kMegatron;
    PlanOptions plan_options;
    plan_options.strategy = strategy;
    open_choices({}, true, job, plan_options);
    const Plan plan = make_plan(cluster, job, plan_options);
    const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const double gigabytes = static_cast<double>(usage.ru_maxrss) * 1024 / 1e9;
    report.line(
        fmt::format("{}: {}, {} layers", strategy, name, job.model.layers),
        fmt::format("< {:.0f} s, < 4 GB", most_seconds),
        fmt::format("{:.1f} s, {:.2f} GB, step {:.2f} s", took, gigabytes, plan.prediction.step_seconds),
        took < most_seconds && gigabytes < 4);
  };
  const auto of_two_kinds = [](int hosts) {
    return cluster_of(
        {{{"A100", hosts / 2, 8}, {250e12, 80e9, 200e9}}, {{"A800", hosts / 2, 8}, {200e12, 80e9, 150e9}}},
        20e9);
  };
  measure("64 GPUs", of_two_kinds(8), seven, 2, "holmes");
  for (const Size& size : {Size{8, 2, seven}, Size{128, 30, seventy}, Size{1024, 60, seventy}})
    if (size.hosts * 8 <= options.most_ranks)
      measure(fmt::format("{} GPUs", size.hosts * 8), of_two_kinds(size.hosts), size.job, size.seconds,
              "auto");
  for (const int hosts : {64, 512}) {
    if (2 * hosts * 8 > options.most_ranks) continue;
    Job gpt3;
    gpt3.model = resolve_model("gpt3-175b");
    gpt3.global_batch = options.rows;
    gpt3.tensor = 0;
    gpt3.compute = library_constants("megatron");
    measure(fmt::format("{} GPUs in two halls that share 400 Gbit/s, {} rows", 2 * hosts * 8, options.rows),
            two_halls(hosts), gpt3, 60, "auto");
  }
  report.note("Searched is what `tombolo plan --framework megatron` leaves open.");
}

}  // namespace tombolo::bench
