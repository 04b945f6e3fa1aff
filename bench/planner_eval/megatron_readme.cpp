// The throughput of GPT-3 175B on H100s that Megatron-LM's README states.
#include <algorithm>
#include <cmath>

#include "bench/planner_eval/measured_grid.h"
#include "planner/choices.h"
#include "planner/explain/remedies.h"

namespace tombolo::bench {

namespace {

using namespace planner;

constexpr int kReadmeRows = 1152, kReadmeNodeGpus = 8;
constexpr double kH100Peak = 989.5e12;
constexpr HostNics kReadmeNics{"ConnectX-7 NDR", 8};  // what the library says of InfiniBand

Job gpt3() {
  Job job;
  job.framework = Framework::kMegatron;
  job.compute = library_constants("megatron");
  job.model = {"gpt3-175b", 96, 12288, 96, 4096, 131072, 2};
  job.global_batch = kReadmeRows;
  job.tensor = 0;
  return job;
}

/// What `tombolo plan --framework megatron --within 0` finds.
Plan fastest_plan(int gpus) {
  const topology::ClusterFile cluster =
      library_cluster(gpus / kReadmeNodeGpus, "H100-SXM5-80GB", kReadmeNodeGpus, kReadmeNics);
  Job job = gpt3();
  PlanOptions options;
  open_choices({}, true, job, options);
  return make_plan(cluster, job, options);
}

}  // namespace

void evaluate_megatron_readme(const EvaluationOptions&, EvaluationReport& report) {
  report.section("Megatron-LM's README: GPT-3 175B on H100");
  const Model model = gpt3().model;
  const double h = model.hidden, s = model.context, l = model.layers, v = model.vocabulary;
  const double flops = 72 * kReadmeRows * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
  for (const auto& [gpus, published] : {std::pair{96, 0.47}, {4608, 0.42}}) {
    const Plan plan = fastest_plan(gpus);
    const double utilization = flops / plan.prediction.step_seconds / gpus / kH100Peak;
    report.line(fmt::format("model FLOPs utilization on {} GPUs", gpus),
                fmt::format("{:.0f} % +- a tenth", 100 * published),
                fmt::format("{:.1f} % ({})", 100 * utilization, layout_text(plan.job)),
                std::abs(utilization / published - 1) <= 0.1);
  }
  report.note(
      "Predicted, no row fitted: the record megatron of library/compute.json, whose products and floors are "
      "of "
      "nanotron's runs. The layout is not published; taken is the fastest that "
      "`tombolo plan --framework megatron` finds. Attention counts in full, as there. Tensor-parallel "
      "exchanges "
      "and the gathering of parameters are overlapped, as in those runs.");
}

}  // namespace tombolo::bench
