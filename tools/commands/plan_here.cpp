#include "tools/commands/plan_here.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "planner/simulate/training_log.h"
#include "tools/cli/command.h"
#include "tools/cli/progress_bar.h"
#include "tools/commands/plan_running.h"
#include "tools/launch/probe_ranks.h"
#include "tools/launch/profile_ranks.h"

namespace tombolo::tools {

namespace {

constexpr double kSecondsPerMicroBatch = 0.3;

/// The times of the model's layers, by the bundled trainer's kernels, on what the job will train on.
ProfileRequest request_of(const planner::Job& job) {
  ProfileRequest request;
  request.model = job.model;
  request.micro_batches = {1, 2, 4};
  request.seconds = kSecondsPerMicroBatch;
  request.device = job.on_cuda() ? trainer::DeviceChoice::kCuda : trainer::DeviceChoice::kCpu;
  if (job.on_cuda() && job.model.bytes_per_value == 2) request.precision = compute::Precision::kBfloat16;
  if (job.moment_bytes == 2) request.moments = compute::Precision::kBfloat16;
  return request;
}

/// What rank 0 tells the others of the running plan: its text, or after this the problem with its file.
constexpr char kProblemMark = '!';

std::string running_text(const PlanOptions& options) {
  try {
    const planner::Plan running = load_running(options.running);
    if (!options.measured.empty()) (void)planner::load_run(options.measured, running);
    return running.to_json().dump();
  } catch (const Error& error) {
    return kProblemMark + std::string(error.what());
  }
}

/// The files need to be on the host of rank 0 alone.
void take_over_from_rank_0(const collectives::Options& engine, probe::RendezvousGroup& group,
                           PlanOptions& options) {
  const std::string mine = engine.identity.rank == 0 ? running_text(options) : std::string();
  const std::string text = group.gather("the running plan", mine, engine.deadline).front();
  if (text.starts_with(kProblemMark)) fail(Cause::kInvalidUsage, "{}", text.substr(1));
  take_over_job(parse_running(text, options.running), options);
}

}  // namespace

bool measure_here(PlanOptions& options) {
  const auto progress = [](const char* what) {
    return [what, terminal = can_draw_progress()](int done, int total) {
      if (terminal) draw_progress(what, done, total);
    };
  };
  const collectives::Options engine = options_of_job();
  probe::RendezvousGroup group(engine);
  if (!options.running.empty()) take_over_from_rank_0(engine, group, options);
  const ProbedJob probed =
      probe_job({.seconds = 0, .compute = true, .progress = progress("probing")}, engine, group);
  const bool first = probed.rank == 0;
  if (first) print_problems(probed, "plan");
  // All ranks find the same problem, and end alike.
  if (!probed.unexplained.empty())
    fail(Cause::kSystem, "{} links were not measured, so that a plan would not hold; see above on rank 0",
         probed.unexplained.size());
  const planner::Job job = job_of(options, probed.cluster);
  std::vector<DeviceTimes> times;
  ProfileRequest request;
  const bool profiles = job.framework == planner::Framework::kTombolo;
  if (profiles) {
    request = request_of(job);
    if (first) request.progress = progress("profiling");
    times = profile_job(request, std::nullopt, engine, group);
  }
  if (!first) return false;
  if (options.cluster.empty()) options.cluster = "cluster.json";
  probed.cluster.save(options.cluster);
  std::fprintf(stderr, "cluster file written to %s\n", options.cluster.c_str());
  if (!profiles) {
    options.profile.clear();
    return true;
  }
  std::vector<std::string> warnings;
  if (options.profile.empty()) options.profile = "layers.json";
  write_json_file(options.profile, merge_times(request, times, warnings).to_json());
  for (const std::string& each : warnings) std::fprintf(stderr, "tombolo plan: warning: %s\n", each.c_str());
  std::fprintf(stderr, "times of layers written to %s\n", options.profile.c_str());
  return true;
}

}  // namespace tombolo::tools
