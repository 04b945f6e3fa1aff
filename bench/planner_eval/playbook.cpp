// The Ultra-Scale Playbook's measured steps of nanotron on nodes of 8 H100.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "bench/planner_eval/measured_grid.h"
#include "planner/cost/memory.h"
#include "planner/search/search.h"

namespace tombolo::bench {

namespace {

using namespace planner;

constexpr int kPlaybookGpus = 8;
/// What a pair of the 8 NICs of 400 Gbit/s attains by EFA: 0.9 of the rate, of which reductions of gradients
/// reach 0.578 (fitted with the constants of the layers).
constexpr HostNics kEfaNics{"ConnectX-7 NDR", 8, 50e9 * 0.9 * 0.578};

struct PlaybookShape {
  int layers, hidden, feed_forward, heads;
  bool tied;
};
const std::map<std::string, PlaybookShape> kPlaybookShapes{{"1B", {16, 2048, 8192, 32, true}},
                                                           {"3B", {28, 3072, 8192, 32, true}},
                                                           {"8B", {32, 4096, 14336, 32, false}},
                                                           {"80B", {80, 8192, 28672, 64, false}}};

Model playbook_model(const std::string& name) {
  const auto found = kPlaybookShapes.find(name);
  if (found == kPlaybookShapes.end())
    fail(Cause::kInvalidUsage, "the Playbook's model \"{}\" has no known shape", name);
  const PlaybookShape& shape = found->second;
  Model model;
  model.layers = shape.layers;
  model.hidden = shape.hidden;
  model.feed_forward = shape.feed_forward;
  model.heads = shape.heads;
  model.context = 4096;
  model.vocabulary = 131072;
  model.bytes_per_value = 2;
  model.gated = true;
  model.tied_embeddings = shape.tied;
  model.biases = model.learned_positions = false;
  return model;
}

/// nanotron divides blocks so that stages have equal FLOPs of matrix products; the output projection counts
/// on the last, which has no layer where the projection alone is a stage's share. (Its build_model() goes by
/// running sums, and with many stages leaves the loss alone on the last; what first stages were measured to
/// hold agrees better with this division.)
std::vector<int> nanotron_layers(const Model& model, int stages) {
  if (stages == 1) return {model.layers};
  const double head =
      model.head_forward_flops() / (model.layer_forward_flops() - model.attention_core_flops());
  const int last = std::max(0, static_cast<int>(std::lround((model.layers + head) / stages - head)));
  std::vector<int> layers(static_cast<std::size_t>(stages), last);
  for (int stage = 0, left = model.layers - last; stage + 1 < stages; ++stage) {
    layers[static_cast<std::size_t>(stage)] = (left + stages - 2 - stage) / (stages - 1 - stage);
    left -= layers[static_cast<std::size_t>(stage)];
  }
  return layers;
}

Job playbook_job(const std::map<std::string, std::string>& row,
                 const std::shared_ptr<const ComputeProfiles>& compute) {
  const auto number = [&](const char* column) { return std::stoi(row.at(column)); };
  Job job;
  job.framework = Framework::kMegatron;
  job.compute = compute;
  job.model = playbook_model(row.at("model"));
  job.micro_batch = number("micro_batch");
  job.tensor = number("tp");
  job.data = number("dp");
  job.pipeline = number("pp");
  job.global_batch = job.micro_batch * number("grad_acc") * job.data;
  job.sequence_parallel = job.tensor > 1;
  job.sharding = number("zero") > 0 ? Sharding::kOptimizer : Sharding::kNone;
  job.overlap_gradients = false;
  return job;
}

GridRun playbook_run(const std::map<std::string, std::string>& row,
                     const std::shared_ptr<const ComputeProfiles>& compute,
                     const topology::ClusterFile& cluster) {
  const Job job = playbook_job(row, compute);
  const ClusterView view(cluster, "per-peer", {});
  const Plan plan = grid_plan_of(job, nanotron_layers(job.model, job.pipeline), view);
  GridRun run;
  run.measured = std::stod(row.at("step_seconds"));
  run.predicted = simulate(plan, view, {.spans = false}).step_seconds;
  run.fitted = std::stoi(row.at("nodes")) <= 8 && (row.at("model") == "1B" || row.at("model") == "8B");
  run.group = row.at("model") + " on " + row.at("nodes");
  run.refused = missing_memory(plan, view).bytes > 0;
  return run;
}

/// The GiB that the first rank held, as the source states them. Fitted are the rows of which the logarithms
/// of tensor and pipeline degree and of the micro-batch have an even sum, and of these only 1B and 8B were
/// looked at.
GridRun playbook_memory(const std::map<std::string, std::string>& row,
                        const std::shared_ptr<const ComputeProfiles>& compute,
                        const topology::ClusterFile& cluster) {
  const Job job = playbook_job(row, compute);
  const ClusterView view(cluster, "per-peer", {});
  const Plan plan = grid_plan_of(job, nanotron_layers(job.model, job.pipeline), view);
  const auto logarithm = [](int power) { return std::lround(std::log2(power)); };
  GridRun run;
  run.measured = std::stod(row.at("memory_gb"));
  const auto tensors = static_cast<double>(rank_memory(plan, 0, 0).total);
  const double room = static_cast<double>(available_on(job, view, plan.ranks.front()).value_or(0));
  run.predicted =
      std::max(tensors, std::min(room, tensors + static_cast<double>(deferred_bytes(plan, 0, 0)))) /
      (1 << 30);
  run.fitted = (logarithm(job.tensor) + logarithm(job.pipeline) + logarithm(job.micro_batch)) % 2 == 0;
  run.group = fmt::format("{} {} {} {}", row.at("model"), job.micro_batch, job.tensor, job.pipeline);
  return run;
}

/// Slower than predicted by more than a third of a second per micro-batch, and by a fifth: a tail without a
/// known cause. Such rows count in the mean.
bool stalled(const GridRun& run, int micro_batches) {
  return run.measured - run.predicted > 0.35 * micro_batches && run.measured > 1.2 * run.predicted;
}

std::vector<GridRun> of_fitted(std::vector<GridRun> runs, bool fitted) {
  std::erase_if(runs, [&](const GridRun& run) { return run.fitted != fitted; });
  return runs;
}

}  // namespace

void evaluate_playbook(const EvaluationOptions& options, EvaluationReport& report) {
  report.section("The Ultra-Scale Playbook's runs of nanotron on 1 to 32 nodes of 8 H100");
  const std::string path = options.data + "/playbook/given.csv";
  if (!std::filesystem::exists(path)) return report.note(skipped_without(path, options));
  const auto compute = library_constants("nanotron"), megatron = library_constants("megatron");
  std::map<int, topology::ClusterFile> clusters;
  std::map<int, std::vector<GridRun>> by_nodes;
  std::vector<GridRun> one, few, moving, fitting, by_flops, by_megatron, memory, memory_of_few;
  for (const auto& row : read_table(path)) {
    const int nodes = std::stoi(row.at("nodes"));
    if (row.at("tokens_per_second").empty() || nodes > 32) continue;
    if (!clusters.contains(nodes))
      clusters.emplace(nodes, library_cluster(nodes, "H100-SXM5-80GB", kPlaybookGpus, kEfaNics));
    const GridRun run = playbook_run(row, compute, clusters.at(nodes));
    by_nodes[nodes].push_back(run);
    memory.push_back(playbook_memory(row, compute, clusters.at(nodes)));
    if (nodes == 1) one.push_back(run);
    if (nodes <= 8) {
      few.push_back(run);
      memory_of_few.push_back(memory.back());
      by_flops.push_back(playbook_run(row, nullptr, clusters.at(nodes)));
      by_megatron.push_back(playbook_run(row, megatron, clusters.at(nodes)));
      if (!stalled(run, std::stoi(row.at("grad_acc")))) moving.push_back(run);
      if (!run.refused) fitting.push_back(run);
    }
    if (options.details) {
      std::string text;
      for (const auto& [name, value] : row) text += fmt::format("{} {}, ", name, value);
      report.note(fmt::format("{}predicted {:.4f} s, {:.2f} GiB{}", text, run.predicted,
                              memory.back().predicted, run.refused ? ", which do not fit" : ""));
    }
  }
  const auto line = [&](const std::string& name, const GridError& error, double bound) {
    if (error.rows > 0)
      report.line(name, fmt::format("<= {:.0f} %", 100 * bound), describe(error), error.mean <= bound);
  };
  line("step on one node, mean absolute error, all fitted", error_of(one, true), 0.08);
  line("step on up to 8 nodes, mean absolute error, rows that were fitted (1B, 8B)", error_of(few, true),
       0.15);
  line("step on up to 8 nodes, mean absolute error, rows that were not (3B, 80B)", error_of(few, false),
       0.15);
  if (const std::vector<double> regret = regrets(few); !regret.empty()) {
    const double mean =
        std::accumulate(regret.begin(), regret.end(), 0.0) / static_cast<double>(regret.size());
    report.line("first choice against the best measured layout on up to 8 nodes, mean regret", "<= 5 %",
                fmt::format("{:.1f} % (largest {:.1f} %) over {} groups", 100 * mean, 100 * regret.back(),
                            regret.size()),
                mean <= 0.05);
  }
  for (const auto& [nodes, rows] : {std::pair(8, &memory_of_few), std::pair(32, &memory)})
    for (const bool fitted : {true, false})
      line(fmt::format("memory of the first rank on up to {} nodes, mean absolute error, rows that were {}",
                       nodes, fitted ? "fitted" : "not"),
           error_of(*rows, fitted), 0.08);
  report.note(
      "Memory: tensors as nanotron allocates them (8 bytes per parameter beside the optimizer's 12, a gated "
      "MLP that keeps its gate's activation, 10 bytes per logit), and where ranks share layers dead "
      "activations of whole micro-batches, which PyTorch gives back only once the stream of the exchange has "
      "passed them, as far as the GPU has room. 5 constants fitted, to the 194 rows of 1B and 8B among the "
      "fitted: 13 values of the model's width per token and layer, of which 8 are known; 0.1 GB per process; "
      "49 dead activations without a pipeline, 31 in one of 4 and more stages, and in that where more than "
      "16 ranks share a layer, as in 2 stages, none.");
  report.note(fmt::format(
      "Rows of one model, micro-batch, tensor and pipeline degree, which differ in replicas and ZeRO alone: "
      "with the best shift for each group of such rows their memory still errs by {} of those that were "
      "fitted, and by {} of the others; the largest pairs are 36.5 and 63.2 GiB, 41.7 and 77.1 GiB.",
      describe(error_within_groups(of_fitted(memory, true))),
      describe(error_within_groups(of_fitted(memory, false)))));
  for (const int nodes : {16, 32})
    if (const GridError error = error_of(by_nodes[nodes], false); error.rows > 0)
      report.note(fmt::format("On {} nodes, not fitted: {}.", nodes, describe(error)));
  const auto count = [](const std::vector<GridRun>& runs, bool fitted) {
    return std::ranges::count(runs, fitted, &GridRun::fitted);
  };
  report.note(fmt::format(
      "Of {} rows on up to 8 nodes {} took over 0.35 s per micro-batch, and a fifth, longer than predicted; "
      "they "
      "are counted, and without them the rows that were not fitted err by {}. Such rows with pipelines wait "
      "mostly for 0.5 s per micro-batch with 2 stages and 1.0 to 1.2 s with more, whatever model and degrees "
      "are: "
      "for 0.5 s in each pass that begins with what another stage sent. Most are without ZeRO or on many "
      "nodes, "
      "without a known cause. Beyond 8 nodes pairs that differ in ZeRO alone differ by over 1.3 times in "
      "about "
      "half of the cases.",
      few.size(), few.size() - moving.size(), describe(error_of(moving, false))));
  report.note(
      fmt::format("{} of the rows that were fitted and {} of the others ran though their memory is predicted "
                  "not to fit; such a layout is no choice above. With pipelines all of these wait so, as "
                  "PyTorch's allocator must get memory back before it gives any, and so do those whose dead "
                  "activations fill the GPU; for both the wait is predicted (crowded_seconds). Without the "
                  "rows that do not fit those that were not fitted err by {}.",
                  count(few, true) - count(fitting, true), count(few, false) - count(fitting, false),
                  describe(error_of(fitting, false))));
  report.note(fmt::format(
      "Rows that were not fitted, on up to 8 nodes, by FLOPs over attained FLOP/s alone: {}; by what "
      "--framework megatron takes where --software nanotron is not said: {}, as other software "
      "neither waits so nor launches so.",
      describe(error_of(by_flops, false)), describe(error_of(by_megatron, false))));
  report.note(
      "Constants: the record nanotron of library/compute.json, fitted by this simulator to 1B and 8B on up "
      "to 8 "
      "nodes, with the rate of a NIC, of which a host has 8 (0.578 of 0.9 of 400 Gbit/s). Shapes of the "
      "models are "
      "those of nanotron's scripts/scaling_benchmarks.py, which names the 80B one 70B; how it divides layers "
      "among "
      "stages was compared with step times and memory of all rows.");
}

}  // namespace tombolo::bench
