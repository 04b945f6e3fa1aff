// Steps of Megatron-LM on A100s that its authors published: up to a trillion parameters, on up to 3,072 GPUs.
#include <algorithm>
#include <string>
#include <vector>

#include "bench/planner_eval/measured_grid.h"

namespace tombolo::bench {

namespace {

using namespace planner;

constexpr int kSeleneNodeGpus = 8;
/// The mean error of Calculon's own validation (`calculon llm-validation`) on the runs of arXiv 2205.05198.
constexpr double kCalculonPercent = 3.65;
/// Of each node of Selene, for training.
constexpr HostNics kSeleneNics{"ConnectX-6 HDR", 8};

/// What the runs of both papers have in common: rows of 2048 tokens, and attention whose weights are in
/// memory.
struct PublishedRun {
  std::string name;
  int layers, hidden, heads;
  int tensor, pipeline, chunks, gpus;
  int rows, micro_batch;
  Recompute recompute;
  double measured;  ///< seconds, or FLOP/s per GPU
};

Job job_of(const PublishedRun& run) {
  Job job;
  job.framework = Framework::kMegatron;
  job.compute = library_constants("megatron");
  job.fused_attention = false;
  job.model = {run.name, run.layers, run.hidden, run.heads, 2048, 51200, 2};
  job.global_batch = run.rows;
  job.micro_batch = run.micro_batch;
  job.tensor = run.tensor;
  job.pipeline = run.pipeline;
  job.data = run.gpus / run.tensor / run.pipeline;
  job.recompute = run.recompute;
  job.sequence_parallel = run.recompute == Recompute::kSelective;
  job.chunks = run.chunks;
  if (run.chunks > 1) job.schedule = Schedule::kInterleaved;
  job.fp32_gradients = run.pipeline > 1;
  job.overlap_gradients = false;
  job.sends = StageSends::kTogether;
  return job;
}

/// With what is predicted for it, and whether it is predicted to fit in memory, as it did.
GridRun predicted(const PublishedRun& run, double seconds) {
  const int nodes = std::max(1, run.gpus / kSeleneNodeGpus), stages = run.pipeline * run.chunks;
  return predicted_run(job_of(run), std::vector<int>(static_cast<std::size_t>(stages), run.layers / stages),
                       library_cluster(nodes, "A100-SXM4-80GB", run.gpus / nodes, kSeleneNics), seconds);
}

/// Table 5 of arXiv 2205.05198, with the degrees of its table 3.
std::vector<PublishedRun> recomputation_runs() {
  std::vector<PublishedRun> runs;
  const auto add = [&](const PublishedRun& model, double full, double selective) {
    for (const auto& [recompute, seconds] :
         {std::pair{Recompute::kFull, full}, {Recompute::kSelective, selective}}) {
      PublishedRun& run = runs.emplace_back(model);
      run.recompute = recompute;
      run.measured = seconds;
    }
  };
  add({"22B", 48, 6144, 64, 8, 1, 1, 8, 4, 4, {}, 0}, 1.42, 1.10);
  add({"175B", 96, 12288, 96, 8, 8, 3, 64, 64, 1, {}, 0}, 18.13, 13.75);
  add({"530B", 105, 20480, 128, 8, 35, 3, 280, 280, 1, {}, 0}, 49.05, 37.83);
  add({"1T", 128, 25600, 160, 8, 64, 1, 512, 512, 1, {}, 0}, 94.42, 71.49);
  return runs;
}

/// Table 1 of arXiv 2104.04473, with the micro-batches and model chunks of Megatron-LM's
/// examples/sc21/run_table_1.sh.
std::vector<PublishedRun> scaling_runs() {
  constexpr Recompute kFull = Recompute::kFull;
  return {
      {"1.7B", 24, 2304, 24, 1, 1, 1, 32, 512, 16, kFull, 137e12},
      {"3.6B", 30, 3072, 32, 2, 1, 1, 64, 512, 16, kFull, 138e12},
      {"7.5B", 36, 4096, 32, 4, 1, 1, 128, 512, 16, kFull, 142e12},
      {"18.4B", 40, 6144, 48, 8, 1, 1, 256, 1024, 8, kFull, 135e12},
      {"39.1B", 48, 8192, 64, 8, 2, 1, 512, 1536, 4, kFull, 138e12},
      {"76.1B", 60, 10240, 80, 8, 4, 3, 1024, 1792, 2, kFull, 140e12},
      {"145.6B", 80, 12288, 96, 8, 8, 2, 1536, 2304, 2, kFull, 148e12},
      {"310.1B", 96, 16384, 128, 8, 16, 2, 1920, 2160, 1, kFull, 155e12},
      {"529.6B", 105, 20480, 128, 8, 35, 3, 2520, 2520, 1, kFull, 163e12},
      {"1008B", 128, 25600, 160, 8, 64, 1, 3072, 3072, 1, kFull, 163e12},
  };
}

/// The FLOPs of a step as that paper counts them: with what is computed again, and attention in full.
double flops_of(const PublishedRun& run) {
  const double h = run.hidden, l = run.layers, s = 2048, v = 51200;
  return 96 * run.rows * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
}

}  // namespace

void evaluate_megatron_a100(const EvaluationOptions& options, EvaluationReport& report) {
  report.section("Megatron-LM's published runs on 8 to 3,072 A100s");
  std::vector<GridRun> recomputation, scaling;
  int refused = 0;
  const auto add = [&](std::vector<GridRun>& runs, const PublishedRun& run, double seconds) {
    const GridRun& one = runs.emplace_back(predicted(run, seconds));
    if (one.refused) ++refused;
    if (options.details)
      report.note(fmt::format("{} parameters, {} GPUs, {} recomputation{}", run.name, run.gpus,
                              recompute_name(run.recompute), beside_measured(one)));
  };
  for (const PublishedRun& run : recomputation_runs()) add(recomputation, run, run.measured);
  for (const PublishedRun& run : scaling_runs()) add(scaling, run, flops_of(run) / run.gpus / run.measured);
  const GridError few = error_of(recomputation, false), many = error_of(scaling, false);
  report.line("8 runs with full and selective recomputation, mean absolute error",
              fmt::format("<= {:.2f} % (Calculon)", kCalculonPercent), describe(few),
              100 * few.mean <= kCalculonPercent);
  report.line("10 models of 1.7 to 1,008 billion parameters, mean absolute error", "<= 12 %", describe(many),
              many.mean <= 0.12);
  report.line("runs that are predicted to fit in memory", "18 of 18", fmt::format("{} of 18", 18 - refused),
              refused == 0);
  report.note(
      "Predicted, no row fitted: the record megatron of library/compute.json, whose constants are of one "
      "node, "
      "widths of 1024 and 2048 and rows of 1024 tokens, on the library's hosts of 8 A100-SXM4-80GB with 8 "
      "NICs of "
      "200 Gbit/s InfiniBand. "
      "Measured are the seconds of table 5 of arXiv 2205.05198 and the FLOP/s per GPU of table 1 of arXiv "
      "2104.04473, "
      "with micro-batches and chunks from Megatron-LM's examples/sc21. Attention is not fused, and no "
      "gradients "
      "are reduced beside the backward pass. Other constants that fit the one node a little better were not "
      "taken "
      "since they predict these runs worse.");
  report.note(
      fmt::format("Calculon (calculon-ai/calculon), an analytical model of such runs, errs by {:.2f} % on "
                  "the first 8, by 8.87 % "
                  "at most; run beside this, with its own system a100_80g.",
                  kCalculonPercent));
}

}  // namespace tombolo::bench
