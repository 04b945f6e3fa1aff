#include "tools/demo/compute_speed.h"

#include <algorithm>
#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/median.h"
#include "trainer/checkpoint.h"
#include "trainer/stage_compute.h"

namespace tombolo::tools::demo {
namespace {

// As many micro-batches as the first of two stages holds: what one leaves in the caches is gone when its
// backward pass comes, and a single layer that stays in them would look a fifth faster than the trainer is.
constexpr int kInFlight = 2;
constexpr auto kBudget = std::chrono::milliseconds(700);

std::unique_ptr<trainer::StageCompute> make_stage(const planner::Job& job) {
  trainer::StageOptions options;
  // A stage in the middle of a pipeline is layers and nothing else.
  options.layers = job.model.layers / job.pipeline;
  options.first_layer = options.layers;
  options.shape.layers = 3 * options.layers;
  options.shape.context = job.model.context;
  options.shape.vocabulary = job.model.vocabulary;
  options.shape.padded_vocabulary = job.model.vocabulary;
  options.shape.heads = job.model.heads;
  options.shape.width = job.model.hidden;
  options.rows = job.micro_batch;
  options.in_flight = kInFlight;
  auto stage = trainer::make_cpu_stage(options);
  trainer::initialize(options.shape, 1, stage->layout(), stage->parameters());
  return stage;
}

void pass(trainer::StageCompute& stage) {
  for (int batch = 0; batch < kInFlight; ++batch) {
    // Numbers of usual size, none of them denormal.
    std::ranges::fill(stage.input(batch), batch == 0 ? 0.5F : -0.25F);
    stage.input(batch)[0] = 1.0F;
    stage.forward(batch, {}, {}, {});
  }
  for (int batch = 0; batch < kInFlight; ++batch) {
    std::ranges::fill(stage.boundary_gradient(batch), 1e-3F);
    stage.backward(batch, {}, {}, {});
  }
}

/// FLOP/s of `ranks` stages at work at once, each in a thread of its own. A mean over the time, not a median
/// over passes: with fewer cores than ranks, the others' turns belong to it.
double measure_stages(const planner::Job& job, int ranks, Duration budget) {
  double flops_per_pass =
      3.0 * kInFlight * job.micro_batch * (job.model.layers / job.pipeline) * job.model.layer_forward_flops();
  std::vector<std::unique_ptr<trainer::StageCompute>> stages;
  for (int rank = 0; rank < ranks; ++rank) stages.push_back(make_stage(job));
  std::vector<double> speeds(stages.size());
  std::barrier ready(ranks);
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < stages.size(); ++rank) {
      threads.emplace_back([&, rank] {
        trainer::StageCompute& stage = *stages[rank];
        pass(stage);  // pages and caches
        ready.arrive_and_wait();
        TimePoint begin = Clock::steady().now();
        Deadline deadline = Deadline::after(budget);
        int passes = 0;
        do {
          pass(stage);
          ++passes;
        } while (!deadline.passed());
        speeds[rank] = passes * flops_per_pass / to_seconds(Clock::steady().now() - begin);
      });
    }
  }
  double sum = 0;
  for (double speed : speeds) sum += speed;
  return sum;
}

double measure_update(const planner::Job& job, Duration budget) {
  auto stage = make_stage(job);
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

ComputeSpeed measure_compute_speed(const planner::Job& job) {
  ComputeSpeed speed;
  speed.alone_flops_per_second = measure_stages(job, 1, kBudget);
  speed.all_flops_per_second = measure_stages(job, job.pipeline * job.data, kBudget * 3 / 2);
  speed.update_bytes_per_second = measure_update(job, kBudget / 3);
  return speed;
}

ComputeSpeed median_of(const std::vector<ComputeSpeed>& speeds) {
  const auto middle = [&](double ComputeSpeed::*figure) {
    std::vector<double> all;
    for (const ComputeSpeed& one : speeds) all.push_back(one.*figure);
    return median(std::move(all));
  };
  return {middle(&ComputeSpeed::alone_flops_per_second), middle(&ComputeSpeed::all_flops_per_second),
          middle(&ComputeSpeed::update_bytes_per_second)};
}

topology::ClusterFile with_speed(topology::ClusterFile cluster, const ComputeSpeed& speed) {
  std::vector<std::string> hosts;
  for (auto& host : cluster.hosts) {
    hosts.push_back(host.name);
    for (auto& device : host.devices) {
      device.flops_per_second = speed.alone_flops_per_second;
      device.memory_bytes_per_second = speed.update_bytes_per_second;
    }
  }
  cluster.shared_processor = topology::SharedProcessor{hosts, speed.effective_cores()};
  return cluster;
}

}  // namespace tombolo::tools::demo
