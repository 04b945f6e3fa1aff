#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "base/error.h"
#include "planner/launch/emitted_precision.h"
#include "planner/launch/framework_arguments.h"

namespace tombolo::planner {

namespace {

/// PyTorch's name of a schedule.
std::string_view schedule_class(Schedule schedule) {
  switch (schedule) {
    case Schedule::kGPipe:
      return "GPipe";
    case Schedule::kInterleaved:
      return "Interleaved1F1B";
    case Schedule::kInterleavedZeroBubble:
      return "InterleavedZeroBubble";
    case Schedule::kOneForwardOneBackward:
    case Schedule::kZeroBubbleH1:
      break;
  }
  return "1F1B";
}

/// How many layers fewer than the others the first and the last stage have. torchtitan can say no other
/// difference by its arguments.
struct LessLayers {
  int usual = 0, first = 0, last = 0;
};

LessLayers less_layers(const Plan& plan) {
  const std::vector<Stage>& stages = plan.stages();
  const int usual = std::ranges::max_element(stages, {}, &Stage::layers)->layers;
  return {usual, usual - stages.front().layers, usual - stages.back().layers};
}

/// What of the model no argument says, as sentences; none where it is as usual, or the named model has it.
std::vector<std::string> sentences_of(const Model& model) {
  std::vector<std::string> sentences;
  const bool named = !torchtitan_model(model).empty();
  const bool llama = named && model.experts == 0;
  if (llama && model.rotary_scaling != 8)
    sentences.push_back(fmt::format(
        "torchtitan's llama3 scales rotary positions by 8, as Llama 3.1 does, and this model's are {}.",
        model.rotary_scaling > 0 ? fmt::format("scaled by {}", model.rotary_scaling) : "not scaled"));
  // It turns neighbours in any case, and reads the weights of others in that order.
  Model beside = model;
  if (llama) beside.rotary_scaling = 0;
  if (llama) beside.rotary_pairs = false;
  if (named) beside.query_key_norms = false;
  if (named) beside.router = {};
  if (const std::string details = model_details(beside); !details.empty())
    sentences.push_back(
        fmt::format("The program's model must have {}, for which there is no argument.", details));
  return sentences;
}

}  // namespace

FrameworkArguments torchtitan_arguments(const Plan& plan, const topology::ClusterFile& cluster) {
  const Job& job = plan.job;
  FrameworkArguments arguments;
  const auto add = [&]<typename... Values>(fmt::format_string<Values...> text, Values&&... values) {
    arguments.lines.push_back(fmt::format(text, std::forward<Values>(values)...));
  };
  const auto remark = [&](std::string sentence) {
    if (!sentence.empty()) arguments.remarks.push_back(std::move(sentence));
  };
  if (const std::string_view flavor = torchtitan_model(job.model); !flavor.empty())
    add("{}", flavor);
  else
    remark(
        fmt::format("--model.name and --model.flavor are the program's arguments: {} layers, width {}, {} "
                    "heads ({} of keys).",
                    job.model.layers, job.model.hidden, job.model.heads, job.model.key_value_heads()));
  for (std::string& sentence : sentences_of(job.model)) remark(std::move(sentence));
  const int stages = plan.pipeline_size();
  add("--parallelism.pipeline_parallel_degree {} --parallelism.tensor_parallel_degree {}", stages,
      job.tensor);
  // Replicas that divide rows' tokens are not counted here; they shard with the others.
  const int replicas = plan.data_size() / job.context_parallel;
  const bool shards = job.sharding >= Sharding::kGradients;
  add("--parallelism.data_parallel_shard_degree {} --parallelism.data_parallel_replicate_degree {}",
      shards ? replicas : 1, shards ? 1 : replicas);
  if (shards)
    add("--parallelism.fsdp_reshard_after_forward {}",
        job.sharding == Sharding::kParameters ? "always" : "never");
  if (job.context_parallel > 1) {
    // "alltoall" passes one part at a time, as the ring of the plan does; the default gathers all.
    add("--parallelism.context_parallel_degree {} --parallelism.context_parallel_rotate_method alltoall",
        job.context_parallel);
  }
  if (job.model.experts > 0 && job.expert_parallel > 1)
    add("--parallelism.expert_parallel_degree {} --parallelism.expert_tensor_parallel_degree {}",
        job.expert_parallel, job.tensor);
  if (stages > 1) {
    const LessLayers less = less_layers(plan);
    add("--parallelism.pipeline_parallel_schedule {} --parallelism.pipeline_parallel_microbatch_size {}",
        schedule_class(job.schedule), job.micro_batch);
    add("--parallelism.pipeline_parallel_layers_per_stage {}", less.usual);
    add("--parallelism.pipeline_parallel_first_stage_less_layers {} "
        "--parallelism.pipeline_parallel_last_stage_less_layers {}",
        less.first, less.last);
  }
  // With stages the local batch is all of a step's rows of a replica, which the pipeline cuts into
  // micro-batches; without, it is one micro-batch, and torchtitan accumulates gradients.
  add("--training.local_batch_size {} --training.global_batch_size {} --training.seq_len {}",
      stages > 1 ? plan.pipelines.front().rows : job.micro_batch, job.global_batch, job.model.context);
  if (job.overlap_tensor) add("--parallelism.enable_async_tensor_parallel --compile.enable");
  add("--activation_checkpoint.mode {}", recompute_name(job.recompute));
  if (job.recompute == Recompute::kSelective) add("--activation_checkpoint.selective_ac_option op");

  const EmittedPrecision emitted = emitted_precision(plan, cluster);
  switch (emitted.precision) {
    case Precision::kFp16:
      fail(Cause::kUnsupported, "torchtitan has no fp16: {} Plan for Megatron-LM (--framework megatron)",
           emitted.remark.empty() ? "plan in bf16 or fp32." : emitted.remark);
    case Precision::kFp8Hybrid:
    case Precision::kFp8E4m3:
      // The recipe multiplies in E4M3 throughout; the output projection stays as it is.
      add("--model.converters quantize.linear.float8 --quantize.linear.float8.recipe_name rowwise "
          "--quantize.linear.float8.filter_fqns output");
      [[fallthrough]];
    case Precision::kBf16:
      add("--training.mixed_precision_param bfloat16");
      break;
    case Precision::kFp32:
    case Precision::kTf32:
      add("--training.mixed_precision_param float32");
      break;
  }
  remark(fmt::format("Vocabulary {}: choose --model.hf_assets_path to match.", job.model.vocabulary));
  return arguments;
}

}  // namespace tombolo::planner
