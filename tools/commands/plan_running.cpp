#include "tools/commands/plan_running.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/error.h"

namespace tombolo::tools {
namespace {

planner::Plan as_it_runs(planner::Plan plan) {
  if (plan.job.schedule == planner::Schedule::kOneForwardOneBackward &&
      plan.job.sends == planner::StageSends::kBeside)
    plan.job.sends = planner::traits(plan.job.framework).sends;
  return plan;
}

/// The first of the sizes in which two models differ, "layers 8 in place of 4"; empty where they are alike.
std::string difference_of(const planner::Model& running, const planner::Model& asked) {
  const std::array<std::pair<const char*, int planner::Model::*>, 5> sizes{
      {{"layers", &planner::Model::layers},
       {"width", &planner::Model::hidden},
       {"heads", &planner::Model::heads},
       {"context", &planner::Model::context},
       {"vocabulary", &planner::Model::vocabulary}}};
  for (const auto& [name, size] : sizes)
    if (running.*size != asked.*size)
      return fmt::format("{} {} in place of {}", name, asked.*size, running.*size);
  if (running.parameters() != asked.parameters())
    return fmt::format("{} parameters in place of {}", asked.parameters(), running.parameters());
  return {};
}

void refuse_another_job(const planner::Job& running, const PlanOptions& options) {
  std::string difference;
  if (options.job.global_batch > 0 && options.job.global_batch != running.global_batch)
    difference = fmt::format("batch {} in place of {}", options.job.global_batch, running.global_batch);
  else if (!options.framework.empty() && options.framework != planner::framework_name(running.framework))
    difference = fmt::format("framework {} in place of {}", options.framework,
                             planner::framework_name(running.framework));
  else if (!options.dtype.empty() && options.dtype != planner::precision_name(running.multiplies_in()))
    difference = fmt::format("precision {} in place of {}", options.dtype,
                             planner::precision_name(running.multiplies_in()));
  else if (options.model.given())
    difference = difference_of(running.model, options.model.resolve());
  if (!difference.empty())
    fail(Cause::kInvalidUsage,
         "--running {} is of another job than what is asked for ({}), so that their steps cannot be "
         "compared; leave "
         "out --model, its sizes, --batch, --framework and --dtype, which are that plan's then, or plan "
         "without "
         "--running",
         options.running, difference);
}

}  // namespace

planner::Plan load_running(const std::string& path) {
  return as_it_runs(planner::Plan::load(path));
}

planner::Plan parse_running(std::string_view text, const std::string& path) {
  return as_it_runs(planner::Plan::parse(JsonDocument::parse(text, path)));
}

void take_over_job(const planner::Plan& running, PlanOptions& options) {
  const planner::Job& job = running.job;
  refuse_another_job(job, options);
  options.running_job = job;
  options.job.global_batch = job.global_batch;
  options.framework = planner::framework_name(job.framework);
  if (job.framework == planner::Framework::kTombolo) {
    if (options.device.empty()) options.device = planner::trainer_device_name(job.device);
    if (options.moments.empty() && job.moment_bytes == 2) options.moments = "bf16";
  } else {
    if (!job.fused_attention) options.unfused_attention = true;
  }
}

}  // namespace tombolo::tools
