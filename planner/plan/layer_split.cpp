#include "planner/plan/layer_split.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace tombolo::planner {

std::vector<int> split_by_speed(int layers, const std::vector<double>& speeds, const std::vector<int>& stages,
                                double alpha) {
  TOMBOLO_CHECK(!speeds.empty() && speeds.size() == stages.size(), "speeds={} stages={}", speeds.size(),
                stages.size());
  const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  int stages_left = std::accumulate(stages.begin(), stages.end(), 0);
  TOMBOLO_CHECK(sum > 0 && alpha > 0 && layers >= stages_left, "sum={} alpha={} layers={} stages={}", sum,
                alpha, layers, stages_left);
  std::vector<int> result;
  int left = layers;
  for (std::size_t group = 0; group < speeds.size(); ++group) {
    stages_left -= stages[group];
    int take = left;
    if (group + 1 < speeds.size()) {
      // Speeds are measured, so two equal clusters' differ by a little: without the tolerance the slower
      // one's half of four layers would be floored to one.
      constexpr double kMeasurementNoise = 0.01, kMostLayers = 0.05;
      const double share = alpha * speeds[group] / sum * layers;
      take = static_cast<int>(std::floor(share + std::min(kMeasurementNoise * share, kMostLayers)));
      take = std::clamp(take, stages[group], left - stages_left);
    }
    left -= take;
    for (int i = 0; i < stages[group]; ++i)
      result.push_back(take / stages[group] + (i < take % stages[group] ? 1 : 0));
  }
  return result;
}

std::vector<int> nearest_split(const std::vector<int>& layers, const FrameworkTraits& can) {
  const int stages = static_cast<int>(layers.size());
  if (stages < 2 || (can.uneven_layers && (!can.uneven_at_ends_alone || stages == 2))) return layers;
  const int sum = std::accumulate(layers.begin(), layers.end(), 0);
  if (!can.uneven_layers) return sum % stages == 0 ? std::vector<int>(layers.size(), sum / stages) : layers;
  std::vector<int> best = layers;
  double least = std::numeric_limits<double>::max();
  for (int middle = (sum + stages - 1) / stages; middle * (stages - 2) + 2 <= sum; ++middle) {
    const int ends = sum - middle * (stages - 2);
    std::vector<int> tried(layers.size(), middle);
    // Of what is left for both ends each moves equally far from where it was.
    tried.front() = std::clamp((ends + layers.front() - layers.back()) / 2, std::max(1, ends - middle),
                               std::min(middle, ends - 1));
    tried.back() = ends - tried.front();
    double distance = 0;
    for (std::size_t stage = 0; stage < layers.size(); ++stage)
      distance += std::pow(tried[stage] - layers[stage], 2);
    if (distance >= least) continue;
    least = distance;
    best = std::move(tried);
  }
  return best;
}

std::vector<Stage> to_stages(const std::vector<int>& layers_per_stage) {
  std::vector<Stage> stages;
  int first = 0;
  for (const int layers : layers_per_stage) {
    stages.push_back({first, layers});
    first += layers;
  }
  return stages;
}

}  // namespace tombolo::planner
