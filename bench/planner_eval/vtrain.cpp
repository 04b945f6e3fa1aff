// vTrain's measured steps of GPT in Megatron-DeepSpeed on A100s.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "bench/planner_eval/measured_grid.h"

namespace tombolo::bench {

namespace {

using namespace planner;

constexpr const char* kVtrainDevice = "A100-SXM4-80GB";

int number_in(const std::map<std::string, std::string>& row, const std::string& column) {
  const auto found = row.find(column);
  if (found == row.end()) fail(Cause::kInvalidUsage, "vTrain's table has no column \"{}\"", column);
  return std::stoi(found->second);
}

int log2_of(int power) {
  int exponent = 0;
  while (power > 1) {
    power /= 2;
    ++exponent;
  }
  return exponent;
}

GridRun vtrain_run(const std::map<std::string, std::string>& row,
                   const std::shared_ptr<const ComputeProfiles>& compute,
                   const std::map<int, topology::ClusterFile>& clusters) {
  Job job;
  job.framework = Framework::kMegatron;
  job.compute = compute;
  job.model.layers = number_in(row, "# layers");
  job.model.hidden = number_in(row, "hidden size");
  job.model.heads = number_in(row, "attention heads");
  job.model.context = number_in(row, "sequence length");
  job.model.vocabulary = 51200;
  job.model.bytes_per_value = 2;
  job.global_batch = number_in(row, "global batch");
  job.micro_batch = number_in(row, "micro batch");
  job.tensor = number_in(row, "tensor parallelism");
  job.data = number_in(row, "data parallelism");
  job.pipeline = number_in(row, "pipeline parallelism");
  job.recompute = Recompute::kFull;
  job.fp32_gradients = false;
  job.overlap_gradients = false;
  const int gpus = number_in(row, "GPUs");
  GridRun run;
  run.measured = std::stod(row.at("iteration time (ms)")) / 1e3;
  run.predicted = step_seconds(
      job, std::vector<int>(static_cast<std::size_t>(job.pipeline), job.model.layers / job.pipeline),
      clusters.at(gpus));
  // The half by which the constants were chosen: whole groups of one shape and layout.
  run.fitted =
      (job.model.layers / 4 + log2_of(job.tensor) + log2_of(job.data) + log2_of(job.pipeline)) % 2 == 0;
  run.group = fmt::format("{} {} {} {}", gpus, job.global_batch, job.model.hidden, job.model.layers);
  return run;
}

}  // namespace

void evaluate_vtrain(const EvaluationOptions& options, EvaluationReport& report) {
  report.section("vTrain's runs of GPT on one node of A100s");
  const std::string path = options.data + "/vtrain/one_node_given.csv";
  if (!std::filesystem::exists(path)) return report.note("skipped: there is no " + path);
  const auto compute = library_constants("megatron-deepspeed-2022");
  std::map<int, topology::ClusterFile> clusters;
  for (const int gpus : {2, 4, 8}) clusters[gpus] = library_cluster(1, kVtrainDevice, gpus, 25e9);
  std::vector<GridRun> runs, by_flops;
  for (const auto& row : read_table(path)) {
    runs.push_back(vtrain_run(row, compute, clusters));
    by_flops.push_back(vtrain_run(row, nullptr, clusters));
    if (options.details) {
      std::string text;
      for (const auto& [name, value] : row) text += fmt::format("{} {}, ", name, value);
      report.note(fmt::format("{}predicted {:.1f} ms", text, 1e3 * runs.back().predicted));
    }
  }
  const GridError fitted = error_of(runs, true), predicted = error_of(runs, false);
  const std::vector<double> regret = regrets(runs);
  const double mean =
      std::accumulate(regret.begin(), regret.end(), 0.0) / std::max(1.0, static_cast<double>(regret.size()));
  report.line("step, mean absolute error, rows that were fitted", "<= 8 %", describe(fitted),
              fitted.mean <= 0.08);
  report.line("step, mean absolute error, rows that were not", "<= 8 %", describe(predicted),
              predicted.mean <= 0.08);
  if (!regret.empty())
    report.line("first choice against the best measured layout, mean regret", "<= 5 %",
                fmt::format("{:.1f} % over {} groups", 100 * mean, regret.size()), mean <= 0.05);
  report.note(fmt::format("By FLOPs over attained FLOP/s alone, rows that were not fitted: {}.",
                          describe(error_of(by_flops, false))));
  report.note(
      "The cluster is the library's: one host of A100-SXM4-80GB. Constants: the record "
      "megatron-deepspeed-2022 of "
      "library/compute.json, 6 fitted by a closed form, not by this simulator. Fitted are the rows in which "
      "layers / 4 + "
      "log2 of the three degrees is even; groups of the regret have equal GPUs, batch, width and layers, and "
      "mix both.");
}

}  // namespace tombolo::bench
