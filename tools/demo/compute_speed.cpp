#include "tools/demo/compute_speed.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "tools/demo/report.h"
#include "trainer/measure.h"
#include "trainer/stage_compute.h"

namespace tombolo::tools::demo {
namespace {

double measure_update(const planner::Job& job, Duration budget) {
  trainer::StageOptions options;
  options.shape.context = job.model.context;
  options.shape.vocabulary = job.model.vocabulary;
  options.shape.padded_vocabulary = job.model.vocabulary;
  options.shape.layers = job.model.layers;
  options.shape.heads = job.model.heads;
  options.shape.width = job.model.hidden;
  options.layers = job.model.layers / job.pipeline;
  auto stage = trainer::make_cpu_stage(options);
  std::vector<double> seconds;
  Deadline deadline = Deadline::after(budget);
  for (int step = 0; step < 5 || !deadline.passed(); ++step) {
    TimePoint begin = Clock::steady().now();
    stage->update(trainer::adamw_step({}, step, 1.0));
    stage->clear_gradients();
    if (step > 0) seconds.push_back(to_seconds(Clock::steady().now() - begin));
  }
  // Adam reads a parameter, its gradient and both moments and writes all but the gradient: 28 bytes.
  return static_cast<double>(stage->parameters().size()) * 28.0 / median(std::move(seconds));
}

}  // namespace

ComputeSpeed measure_compute_speed(const planner::Job& job, int cores, Duration budget) {
  ComputeSpeed speed;
  speed.alone_flops_per_second = trainer::measure_layer_flops_per_second(job.model, job.micro_batch, budget);
  // One thread per core, not per rank: with more, the scheduler's turns would hide in a pass's time.
  int workers = std::clamp(cores, 1, job.pipeline * job.data);
  std::vector<double> together(static_cast<std::size_t>(workers));
  {
    std::vector<std::jthread> threads;
    for (double& result : together) {
      threads.emplace_back([&result, &job, budget] {
        result = trainer::measure_layer_flops_per_second(job.model, job.micro_batch, budget);
      });
    }
  }
  for (double each : together) speed.all_flops_per_second += each;
  speed.update_bytes_per_second = measure_update(job, budget / 2);
  return speed;
}

}  // namespace tombolo::tools::demo
