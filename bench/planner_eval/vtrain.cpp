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
constexpr int kVtrainNodeGpus = 8;
/// Of each node, as vTrain describes its cluster: 800 Gbit/s in all.
constexpr HostNics kVtrainNics{"ConnectX-6 HDR", 4};

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
  job.fused_attention = false;  // as these runs were
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
  job.sends = StageSends::kTogether;  // as Megatron-LM's plain 1F1B
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

namespace {

/// All rows of a table, with every row as a note where details are wanted.
std::vector<GridRun> vtrain_runs(const std::string& path,
                                 const std::shared_ptr<const ComputeProfiles>& compute,
                                 std::map<int, topology::ClusterFile>& clusters,
                                 const EvaluationOptions& options, EvaluationReport& report) {
  std::vector<GridRun> runs;
  for (const auto& row : read_table(path)) {
    const int gpus = number_in(row, "GPUs");
    if (!clusters.contains(gpus)) {
      const int nodes = std::max(1, gpus / kVtrainNodeGpus);
      clusters.emplace(gpus, library_cluster(nodes, kVtrainDevice, gpus / nodes, kVtrainNics));
    }
    runs.push_back(vtrain_run(row, compute, clusters));
    if (!options.details || !compute) continue;
    std::string text;
    for (const auto& [name, value] : row) text += fmt::format("{} {}, ", name, value);
    report.note(fmt::format("{}predicted {:.1f} ms", text, 1e3 * runs.back().predicted));
  }
  return runs;
}

/// Rows to which nothing was fitted. The folder of measurements has them only where someone put them there.
void evaluate_vtrain_nodes(const EvaluationOptions& options,
                           const std::shared_ptr<const ComputeProfiles>& compute,
                           std::map<int, topology::ClusterFile>& clusters, EvaluationReport& report) {
  report.section("vTrain's runs of GPT on 8 to 64 nodes of 8 A100s");
  const std::string path = options.data + "/vtrain/multi_node_given.csv";
  if (!std::filesystem::exists(path)) return report.note(skipped_without(path, options));
  std::vector<GridRun> runs = vtrain_runs(path, compute, clusters, options, report);
  for (GridRun& run : runs) run.fitted = false;
  const GridError error = error_of(runs, false);
  report.line("step on several nodes, mean absolute error, no row fitted", "<= 12 %", describe(error),
              error.mean <= 0.12);
  report.note(
      "The cluster is the library's: hosts of 8 A100-SXM4-80GB with 4 NICs of 200 Gbit/s InfiniBand.");
}

}  // namespace

void evaluate_vtrain(const EvaluationOptions& options, EvaluationReport& report) {
  report.section("vTrain's runs of GPT on one node of A100s");
  const std::string path = options.data + "/vtrain/one_node_given.csv";
  if (!std::filesystem::exists(path)) return report.note(skipped_without(path, options));
  const auto compute = library_constants("megatron");
  std::map<int, topology::ClusterFile> clusters;
  const std::vector<GridRun> runs = vtrain_runs(path, compute, clusters, options, report),
                             by_flops = vtrain_runs(path, nullptr, clusters, options, report);
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
      "The cluster is the library's: one host of A100-SXM4-80GB. Constants: what --framework megatron takes "
      "on it "
      "(library/compute.json), 6 fitted by a closed form, not by this simulator. Fitted are the rows in "
      "which "
      "layers / 4 + "
      "log2 of the three degrees is even; groups of the regret have equal GPUs, batch, width and layers, and "
      "mix both.");
  evaluate_vtrain_nodes(options, compute, clusters, report);
}

}  // namespace tombolo::bench
