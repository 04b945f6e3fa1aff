// Throughput of torchtitan on A100s that its documentation states.
#include <string>
#include <vector>

#include "bench/planner_eval/measured_grid.h"
#include "planner/model/model_library.h"

namespace tombolo::bench {

namespace {

using namespace planner;

constexpr int kTitanGpus = 64, kTitanHostGpus = 8;

struct TitanRun {
  std::string model;
  int rows_each;
  Recompute recompute;
  double tokens_per_second;  ///< and GPU
};

const std::vector<TitanRun> kTitanRuns = {
    {"llama3-8b", 1, Recompute::kNone, 2973},
    {"llama3-70b", 1, Recompute::kFull, 331},
    {"llama2-13b", 2, Recompute::kNone, 2162},
    {"llama2-70b", 2, Recompute::kFull, 353},
};

Job job_of_titan(const TitanRun& run) {
  Job job;
  job.framework = Framework::kTorchTitan;
  job.compute = library_constants("torchtitan");
  job.model = ModelLibrary::load().find(run.model).model;
  job.tensor = job.pipeline = 1;
  job.data = kTitanGpus;
  job.global_batch = run.rows_each * kTitanGpus;
  job.micro_batch = run.rows_each;
  job.recompute = run.recompute;
  job.sharding = Sharding::kParameters;
  return job;
}

}  // namespace

void evaluate_torchtitan_a100(const EvaluationOptions& options, EvaluationReport& report) {
  report.section("torchtitan's published runs on 64 A100s");
  const topology::ClusterFile cluster =
      library_cluster(kTitanGpus / kTitanHostGpus, "A100-SXM4-80GB", kTitanHostGpus, {"ConnectX-6 HDR", 8});
  std::vector<GridRun> runs;
  for (const TitanRun& run : kTitanRuns) {
    const Job job = job_of_titan(run);
    const GridRun& one = runs.emplace_back(predicted_run(
        job, {job.model.layers}, cluster, 1.0 * run.rows_each * job.model.context / run.tokens_per_second));
    if (options.details)
      report.note(fmt::format("{}, {} rows each, {} recomputation{}", run.model, run.rows_each,
                              recompute_name(run.recompute), beside_measured(one)));
  }
  const GridError error = error_of(runs, false);
  report.line("step, mean absolute error", "<= 12 %", describe(error), error.mean <= 0.12);
  report.note(
      "Measured are the tokens per second and GPU of torchtitan's docs/performance.md (pytorch/torchtitan at "
      "0413364) "
      "without recomputation of whole layers, or with all; its runs that compute every other layer again are "
      "no plans "
      "here. Its network is not described; taken is a NIC of 200 Gbit/s for each GPU. No row fitted: the "
      "record of "
      "library/compute.json for any GPU. All four are predicted too fast, by about what their gathers and "
      "reduce-scatters take: these are taken to cost nothing where they go beside products, though they "
      "share the "
      "GPU's memory and multiprocessors with them.");
}

}  // namespace tombolo::bench
