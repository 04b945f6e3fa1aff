#include "trainer/measure.h"

#include <algorithm>
#include <vector>

#include "trainer/checkpoint.h"
#include "trainer/stage_compute.h"

namespace tombolo::trainer {

double measure_layer_flops_per_second(const planner::Model& model, int rows, Duration budget, int threads) {
  // A stage in the middle of a pipeline is layers and nothing else.
  StageOptions options;
  options.shape.context = model.context;
  options.shape.vocabulary = model.vocabulary;
  options.shape.padded_vocabulary = model.vocabulary;
  options.shape.layers = 3;
  options.shape.heads = model.heads;
  options.shape.width = model.hidden;
  options.first_layer = 1;
  options.layers = 1;
  options.rows = rows;
  options.threads = threads;
  const auto stage = make_cpu_stage(options);
  initialize(options.shape, 1, stage->layout(), stage->parameters());
  std::ranges::fill(stage->input(0), 0.5F);
  for (std::size_t at = 0; at < stage->input(0).size(); at += 3) stage->input(0)[at] = -1.0F;

  const Deadline deadline = Deadline::after(budget);
  constexpr std::size_t kFewest = 5;
  std::vector<double> seconds;
  for (bool warm = false; seconds.size() < kFewest || !deadline.passed(); warm = true) {
    std::ranges::fill(stage->boundary_gradient(0), 1e-3F);
    const TimePoint begin = Clock::steady().now();
    stage->forward(0, {}, {}, {});
    stage->backward(0, {}, {}, {});
    if (warm) seconds.push_back(to_seconds(Clock::steady().now() - begin));
  }
  std::ranges::nth_element(seconds, seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2));
  return 3.0 * rows * model.layer_forward_flops() / seconds[seconds.size() / 2];
}

}  // namespace tombolo::trainer
