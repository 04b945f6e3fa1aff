// Throughput of NeMo on H100s that its documentation states, in fp8.
#include <string>
#include <vector>

#include "bench/planner_eval/measured_grid.h"
#include "planner/model/model_library.h"

namespace tombolo::bench {

namespace {

using namespace planner;

constexpr int kDgxGpus = 8;
constexpr HostNics kDgxNics{"ConnectX-7 NDR", 8};

/// Rows per step, degrees, chunks per stage, and tokens per second and GPU.
struct NemoRun {
  std::string name;
  Model model;
  int gpus, rows, micro_batch, tensor, pipeline, context_parallel, chunks;
  double tokens_per_second;
};

Model gpt(int layers, int hidden, int heads) {
  return {"", layers, hidden, heads, 2048, 51200, 2};
}

/// Rotary positions, and an embedding for each end.
Model nemotron(int layers, int hidden, int heads, int kv_heads) {
  Model model{"", layers, hidden, heads, 4096, 256000, 2};
  model.kv_heads = kv_heads;
  model.learned_positions = model.tied_embeddings = false;
  return model;
}

/// The shapes give the FLOPs per token that the documentation counts (its FLOP/s over its tokens per second).
std::vector<NemoRun> nemo_runs() {
  const ModelLibrary library = ModelLibrary::load();
  const auto known = [&](std::string_view name) { return library.find(name).model; };
  const Model llama3_70b = known("llama3-70b");
  Model llama31_405b = known("llama3.1-405b");
  llama31_405b.context = 8192;
  return {
      {"GPT3-5B", gpt(24, 4096, 32), 64, 2048, 4, 1, 1, 1, 1, 22521},
      {"GPT3-20B", gpt(44, 6144, 48), 64, 256, 2, 2, 1, 1, 1, 5851},
      {"GPT3-175B", gpt(96, 12288, 96), 128, 256, 1, 4, 8, 1, 6, 726},
      {"GPT3-175B", gpt(96, 12288, 96), 512, 2048, 2, 4, 8, 1, 6, 782},
      {"LLAMA2-7B", known("llama2-7b"), 8, 128, 1, 1, 1, 1, 1, 16847},
      {"LLAMA2-13B", known("llama2-13b"), 16, 128, 1, 1, 4, 1, 10, 8646},
      {"LLAMA2-70B", known("llama2-70b"), 64, 128, 1, 4, 4, 1, 20, 1707},
      {"Nemotron-8B", nemotron(32, 4096, 32, 0), 64, 256, 4, 2, 1, 1, 1, 12701},
      {"Nemotron-22B", nemotron(40, 6144, 48, 0), 64, 256, 2, 2, 4, 1, 10, 4256},
      {"Nemotron-340B", nemotron(96, 18432, 96, 8), 128, 32, 1, 8, 8, 1, 12, 322},
      {"LLAMA3-8B", known("llama3-8b"), 8, 128, 1, 1, 1, 2, 1, 12036},
      {"LLAMA3-70B", llama3_70b, 64, 128, 1, 4, 4, 2, 5, 1533},
      {"LLAMA3-70B", llama3_70b, 64, 128, 1, 4, 8, 1, 5, 1602},
      {"LLAMA3.1-405B", llama31_405b, 1024, 512, 1, 8, 8, 2, 8, 292},
  };
}

Job job_of_nemo(const NemoRun& run) {
  Job job;
  job.framework = Framework::kNeMo;
  job.compute = library_constants("nemo");
  job.model = run.model;
  job.precision = Precision::kFp8Hybrid;
  job.global_batch = run.rows;
  job.micro_batch = run.micro_batch;
  job.tensor = run.tensor;
  job.pipeline = run.pipeline;
  job.data = run.gpus / run.tensor / run.pipeline;
  job.context_parallel = run.context_parallel;
  job.sequence_parallel = job.overlap_tensor = run.tensor > 1;
  job.sharding = Sharding::kOptimizer;
  job.overlap_parameters = true;
  job.fp32_gradients = false;
  job.chunks = run.chunks;
  if (run.chunks > 1) job.schedule = Schedule::kInterleaved;
  return job;
}

/// Where layers do not divide, the embedding and the output projection count as one each.
std::vector<int> layers_of(const NemoRun& run) {
  const int chunks = run.pipeline * run.chunks, ends = run.model.layers % chunks == 0 ? 0 : 1;
  std::vector<int> layers(static_cast<std::size_t>(chunks), (run.model.layers + 2 * ends) / chunks);
  layers.front() -= ends;
  layers.back() -= ends;
  return layers;
}

}  // namespace

void evaluate_nemo_h100(const EvaluationOptions& options, EvaluationReport& report) {
  report.section("NeMo's published runs on 8 to 1,024 H100s in fp8");
  std::vector<GridRun> runs;
  int fit = 0;
  for (const NemoRun& run : nemo_runs()) {
    const GridRun& one = runs.emplace_back(
        predicted_run(job_of_nemo(run), layers_of(run),
                      library_cluster(run.gpus / kDgxGpus, "H100-SXM5-80GB", kDgxGpus, kDgxNics),
                      1.0 * run.rows * run.model.context / run.tokens_per_second / run.gpus));
    if (!one.refused) ++fit;
    if (options.details)
      report.note(fmt::format("{} on {} GPUs{}", run.name, run.gpus, beside_measured(one)));
  }
  const GridError error = error_of(runs, false);
  report.line("step, mean absolute error", "<= 12 %", describe(error), error.mean <= 0.12);
  report.line("runs that are predicted to fit in memory", fmt::format("{} of {}", runs.size(), runs.size()),
              fmt::format("{} of {}", fit, runs.size()), fit == static_cast<int>(runs.size()));
  report.note(
      "Measured are the tokens per second and GPU of NeMo 24.07's documentation (docs/source/performance in "
      "NVIDIA/NeMo) and, of the two last, of Megatron Bridge's for 25.11, all of its models that have no "
      "experts, but "
      "for one that takes FSDP. Predicted by the record of "
      "library/compute.json for NeMo and H100, whose products and floors come from nanotron's runs; the "
      "bytes that "
      "other kernels move "
      "are those of Megatron-LM on A100s, which was chosen over an estimate of twice as many with these runs "
      "known. "
      "Gradients are in bf16 and exchanges overlap products, as the scripts of "
      "NVIDIA/NeMo-Framework-Launcher have "
      "it; fp8 takes half the time of bf16 in a layer's products.");
}

}  // namespace tombolo::bench
