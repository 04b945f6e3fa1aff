// resolve(): makes one job of options, plan and checkpoint.
#include <memory>

#include "base/error.h"
#include "trainer/data/open_source.h"
#include "trainer/model/model_file.h"
#include "trainer/run/train.h"

namespace tombolo::trainer {
namespace {

/// The value that `decider` sets, with which a given option must agree; where it sets none, the option or its
/// default.
int agreed_value(std::string_view what, std::optional<int> option, std::optional<int> decided,
                 std::string_view decider, int default_value) {
  if (!decided) return option.value_or(default_value);
  if (option && *option != *decided)
    fail(Cause::kInvalidUsage, "--{} {} contradicts {}, which says {}", what, *option, decider, *decided);
  return *decided;
}

/// Of numbers that a plan or a model decides where they are not given.
void check_counts(const TrainOptions& options) {
  const auto check = [](std::string_view name, std::optional<int> value, int least) {
    if (value && *value < least) fail(Cause::kInvalidUsage, "--{} {} is below {}", name, *value, least);
  };
  check("layers", options.layers, 1);
  check("width", options.width, 1);
  check("heads", options.heads, 1);
  check("context", options.context, 1);
  check("vocabulary", options.vocabulary, 2);
  check("batch", options.batch, 1);
  check("pipeline", options.pipeline, 1);
  check("replicas", options.replicas, 1);
  check("micro-batch", options.micro_batch, 0);
}

void check_data_options(const TrainOptions& options) {
  options.evaluation.check();
  if (!options.measured.empty() &&
      (!options.evaluation.validation.empty() || options.evaluation.sample_every > 0))
    fail(Cause::kInvalidUsage,
         "--measured counts the bytes of training steps: leave out --validation and --sample-every");
  if (options.evaluation.sample_every > 0 && options.sample.tokens <= 0)
    fail(Cause::kInvalidUsage, "--sample-every {} needs --sample, the number of tokens",
         options.evaluation.sample_every);
  const bool text_wanted = options.sample.tokens > 0;
  if (text_wanted && options.tokenizer.empty() && data_kind({options.data, {}}) == DataKind::kTokenFiles)
    fail(Cause::kInvalidUsage, "a sample of a model of tokens needs --tokenizer, which makes text of them");
}

/// What a plan for GPUs says of a size in bytes; else fp32.
compute::Precision planned_precision(const planner::Plan* plan, int bytes) {
  return plan != nullptr && plan->job.on_cuda() && bytes == 2 ? compute::Precision::kBfloat16
                                                              : compute::Precision::kFloat32;
}

/// The model of a plan as its shape is checked: on GPUs the bytes of its values are a precision.
planner::Model planned_model(const planner::Plan& plan) {
  planner::Model model = plan.job.model;
  if (plan.job.on_cuda()) model.bytes_per_value = 4;
  return model;
}

}  // namespace

Job resolve(const TrainOptions& options) {
  if (options.data.empty()) fail(Cause::kInvalidUsage, "--data names no file");
  if (options.steps < 0) fail(Cause::kInvalidUsage, "--steps {} is below 0", options.steps);
  if (options.threads < 1) fail(Cause::kInvalidUsage, "--threads {} is below 1", options.threads);
  if (options.bucket_bytes == 0) fail(Cause::kInvalidUsage, "--bucket 0 is below 1 byte");
  if (options.timeline_first < 0)
    fail(Cause::kInvalidUsage, "--timeline-first {} is below 0", options.timeline_first);
  if (options.timeline_steps < 1)
    fail(Cause::kInvalidUsage, "--timeline-steps {} is below 1", options.timeline_steps);
  if (options.sample.tokens < 0) fail(Cause::kInvalidUsage, "--sample {} is below 0", options.sample.tokens);
  check_counts(options);
  options.checkpoints.check();
  std::shared_ptr<const planner::Plan> plan;
  check_data_options(options);
  if (!options.plan.empty()) {
    if (options.pipeline || options.replicas || options.micro_batch)
      fail(Cause::kInvalidUsage, "--plan already says what --pipeline, --replicas and --micro-batch would");
    plan = std::make_shared<const planner::Plan>(planner::Plan::load(options.plan));
    try {
      to_shape(planned_model(*plan));
    } catch (const Error& error) {
      fail(error.cause(), "plan {}: {}", options.plan, error.what());
    }
  }
  std::optional<Shape> stored;
  if (!options.init.starts_with("random:")) stored = read_model_shape(options.init);
  const std::string decider =
      stored ? fmt::format("model {}", options.init) : fmt::format("plan {}", options.plan);
  auto decided = [&](int Shape::*in_file, int planner::Model::*in_plan) -> std::optional<int> {
    if (stored) return (*stored).*in_file;
    if (plan) return plan->job.model.*in_plan;
    return std::nullopt;
  };

  Job job;
  job.plan = plan;
  job.data = options.data;
  job.tokenizer = options.tokenizer;
  job.order.shuffle_seed = options.shuffle;
  job.init = options.init;
  job.optimizer = options.optimizer;
  job.optimizer.steps = options.steps;
  job.threads = options.threads;
  job.precision =
      options.precision.value_or(planned_precision(plan.get(), plan ? plan->job.model.bytes_per_value : 4));
  job.moments = options.moments.value_or(planned_precision(plan.get(), plan ? plan->job.moment_bytes : 4));
  job.recompute = options.recompute.value_or(plan ? plan->job.recompute : planner::Recompute::kNone);
  job.make_stage = options.make_stage;
  job.bucket_bytes = options.bucket_bytes;
  Shape& shape = job.shape;
  shape.layers =
      agreed_value("layers", options.layers, decided(&Shape::layers, &planner::Model::layers), decider, 4);
  shape.width =
      agreed_value("width", options.width, decided(&Shape::width, &planner::Model::hidden), decider, 128);
  shape.heads =
      agreed_value("heads", options.heads, decided(&Shape::heads, &planner::Model::heads), decider, 4);
  shape.context = agreed_value("context", options.context, decided(&Shape::context, &planner::Model::context),
                               decider, 128);
  const auto vocabulary = decided(&Shape::vocabulary, &planner::Model::vocabulary);
  const bool follows_data = !options.vocabulary && !vocabulary;
  shape.vocabulary = agreed_value("vocabulary", options.vocabulary, vocabulary, decider,
                                  follows_data ? data_vocabulary({options.data, options.tokenizer}) : 0);
  shape.padded_vocabulary = stored ? stored->padded_vocabulary : padded_vocabulary(shape.vocabulary);
  shape.check();
  if (stored && plan) {
    const planner::Model& model = plan->job.model;
    const planner::Model held = to_planner_model(shape);
    if (model.layers != held.layers || model.hidden != held.hidden || model.heads != held.heads ||
        model.context != held.context || model.vocabulary != held.vocabulary)
      fail(Cause::kInvalidUsage,
           "model {} holds {}, but plan {} is for {} layers, width {}, {} heads, context {}, "
           "vocabulary {}",
           options.init, shape.text(), options.plan, model.layers, model.hidden, model.heads, model.context,
           model.vocabulary);
  }
  std::optional<int> planned_batch;
  if (plan) planned_batch = plan->job.global_batch;
  const int batch =
      agreed_value("batch", options.batch, planned_batch, fmt::format("plan {}", options.plan), 8);
  job.parallel = plan
                     ? parallel_config_of(*plan)
                     : even_parallel_config(shape, options.pipeline.value_or(1), options.replicas.value_or(1),
                                            batch, options.micro_batch.value_or(0));
  job.parallel.check(shape);
  job.optimizer.check();
  if (options.sample.tokens != 0) {
    GenerateOptions sample = options.sample;
    sample.tokenizer = options.tokenizer;
    check_generation(shape, sample);
  }
  return job;
}

}  // namespace tombolo::trainer
