// Placement by attained bandwidth on Pipette's matrix, compared with annealing as Pipette describes it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <numeric>
#include <random>

#include "base/json.h"
#include "bench/planner_eval/report.h"
#include "planner/search/dedication.h"

namespace tombolo::bench {

namespace {

using Clock = std::chrono::steady_clock;
using planner::WorkerOrder;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The model is a GPT of 3.1 billion parameters, tensor-parallel over the 8 GPUs of a node, with 512 rows in
/// micro-batches of one.
constexpr double kLayers = 32, kHidden = 2816, kContext = 2048, kRows = 512, kBytes = 2, kTensor = 8;

/// `bandwidth` is in MB/s. Of every `stages` micro-batches one pays for the hops (Pipette's hidden critical
/// path); a ring of n sends 2(n-1)/n of a stage's gradients over each edge.
planner::DedicationCosts costs_of(const std::vector<std::vector<double>>& bandwidth, int stages) {
  planner::DedicationCosts costs;
  costs.workers = static_cast<int>(bandwidth.size());
  const double replicas = static_cast<double>(bandwidth.size()) / stages;
  const double turns = std::max(1.0, std::floor(kRows / replicas / stages));
  const double activations = kContext * kHidden * kBytes * turns;
  const double gradients =
      12 * kHidden * kHidden * kLayers / stages / kTensor * kBytes * 2 * (replicas - 1) / replicas;
  for (const auto& row : bandwidth)
    for (const double attained : row) {
      costs.activations.push_back(activations / (attained * 1e6));
      costs.gradients.push_back(gradients / (attained * 1e6));
    }
  return costs;
}

/// Annealing that starts from the identity. Its moves are: reverse, insert one, swap, insert a segment
/// straight or reversed. A worse order is accepted with probability exp(-loss / temperature), where the loss
/// is scaled to below one by its power of ten and the temperature falls from 1 by a thousandth per step.
class PipetteAnnealing {
 public:
  PipetteAnnealing(const planner::DedicationCosts& costs, int stages, int replicas)
      : costs_(costs), stages_(stages), replicas_(replicas) {}

  double run(double seconds) {
    const auto start = Clock::now();
    WorkerOrder order(static_cast<std::size_t>(costs_.workers)), next;
    std::iota(order.begin(), order.end(), 0);
    double now = cost(order), best = now, temperature = 1;
    for (std::int64_t step = 0; step % 1024 != 0 || seconds_since(start) < seconds; ++step) {
      next = order;
      move(next);
      const double then = cost(next), loss = then - now;
      bool take = loss <= 0;
      if (!take) {
        const double scaled = loss / std::pow(10.0, std::floor(std::log10(loss)) + 1);
        take = std::uniform_real_distribution<>(0, 1)(random_) <= std::exp(-scaled / temperature);
      }
      temperature = std::max(temperature * 0.999, 1e-300);
      if (!take) continue;
      order = next;
      now = then;
      best = std::min(best, now);
    }
    return best;
  }

 private:
  double cost(const WorkerOrder& order) const {
    return planner::dedication_seconds(costs_, stages_, replicas_, order);
  }
  std::ptrdiff_t any(std::size_t count) {
    return std::uniform_int_distribution<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(count) - 1)(random_);
  }
  void move(WorkerOrder& order) {
    std::ptrdiff_t first = any(order.size()), last = any(order.size());
    const std::ptrdiff_t kind = any(5);
    if (kind == 2) {
      std::swap(order[static_cast<std::size_t>(first)], order[static_cast<std::size_t>(last)]);
      return;
    }
    if (kind == 1) {
      const int worker = order[static_cast<std::size_t>(last)];
      order.erase(order.begin() + last);
      order.insert(order.begin() + first, worker);
      return;
    }
    if (first > last) std::swap(first, last);
    if (kind == 0) {
      std::reverse(order.begin() + first, order.begin() + last);
      return;
    }
    WorkerOrder segment(order.begin() + first, order.begin() + last);
    order.erase(order.begin() + first, order.begin() + last);
    if (kind == 4) std::ranges::reverse(segment);
    const std::ptrdiff_t at = any(order.size() + 1);
    order.insert(order.begin() + at, segment.begin(), segment.end());
  }

  const planner::DedicationCosts& costs_;
  int stages_, replicas_;
  std::mt19937_64 random_{1};
};

}  // namespace

void evaluate_pipette(const EvaluationOptions& options, EvaluationReport& report) {
  report.section("Placement on Pipette's matrix of 16 nodes");
  const std::string path = options.data + "/pipette_attained_bandwidth_16_nodes.json";
  if (!std::filesystem::exists(path)) return report.note(skipped_without(path, options));
  const JsonDocument document = JsonDocument::load(path);
  std::vector<std::vector<double>> bandwidth;
  for (const JsonCursor& row : document.root().field("1").field("bandwidth").elements()) {
    bandwidth.emplace_back();
    for (const JsonCursor& value : row.elements()) bandwidth.back().push_back(value.positive_number());
  }
  for (const int stages : {2, 4, 8, 16}) {
    const int workers = static_cast<int>(bandwidth.size()), replicas = workers / stages;
    const planner::DedicationCosts costs = costs_of(bandwidth, stages);
    WorkerOrder identity(bandwidth.size());
    std::iota(identity.begin(), identity.end(), 0);
    const std::clock_t start = std::clock();
    const WorkerOrder order = planner::dedicate(costs, stages, replicas, identity, 200'000);
    const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    const double ours = planner::dedication_seconds(costs, stages, replicas, order);
    const double same = planner::dedication_seconds(costs, stages, replicas, identity);
    const double theirs = PipetteAnnealing(costs, stages, replicas).run(options.annealing_seconds);
    report.line(fmt::format("pp {}: communication of a step, ours against annealing", stages),
                fmt::format("<= {:.3f} ms", theirs * 1e3),
                fmt::format("{:.3f} ms (identity {:.3f})", ours * 1e3, same * 1e3),
                ours <= theirs * (1 + 1e-9));
    report.line(fmt::format("pp {}: processor time of the search", stages), "< 100 ms",
                fmt::format("{:.0f} ms", took * 1e3), took < 0.1);
  }
  report.note(fmt::format(
      "Cost: the slowest pipeline's hops both ways, once per {} micro-batches in flight, plus the slowest "
      "edge of any stage's gradient ring; GPT of 32 layers, width 2816, 512 rows. The annealing had {:g} s "
      "each, compiled, where Pipette's script is interpreted.",
      "pp", options.annealing_seconds));
}

}  // namespace tombolo::bench
