// What a shape would take per step, without simulating it: good enough to rank thousands of shapes, of which
// the best are then simulated.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "planner/search/shape_costs.h"

namespace tombolo::planner {

/// Estimates 1F1B with one chunk per slot. Each pipeline's operations are timed in their order, with the
/// transfers between its slots, but pipelines do not wait for each other: where several send over one NIC,
/// each is slowed down by as much as that is used. Gradients follow, as fast as the busiest NIC lets them.
/// Remembers costs; not thread-safe.
class Estimator {
 public:
  Estimator(const SearchContext& context, const Job& job, const std::vector<Pool>& pools);

  /// Seconds of a step; Scorer::kNever where memory lacks, devices cannot share layers, hosts cannot talk, or
  /// the job fixes something else.
  double seconds(const Shape& shape);
  ShapeCosts& costs() noexcept { return costs_; }
  /// Operations of pipelines that were timed so far: a measure of work that no clock disturbs.
  std::int64_t operations() const noexcept { return operations_; }
  /// Adds work that was done elsewhere.
  void count(std::int64_t operations) noexcept { operations_ += operations; }

 private:
  /// Seconds that a transfer between two slots takes each way, and until it has arrived.
  struct Border {
    double activation = 0, gradient = 0, activation_latency = 0, gradient_latency = 0;
    int queues[4] = {-1, -1, -1, -1};  // both NICs, of the activation and of the gradient
    bool possible = true;
  };
  /// One direction of a NIC.
  struct Queue {
    double load = 0;    // seconds of transfers per step
    int pipelines = 0;  // that send over it
    double free = 0;    // when the gradients that were sent so far are through
  };
  /// Seconds per byte of an all-reduce among replicas on certain hosts.
  struct Reduction {
    std::vector<std::pair<int, double>> queues;
    double slowest = 0, inside = 0, latency = 0;
    bool possible = true;
  };

  bool allowed(const Shape& shape) const;
  double estimate(const Shape& shape);
  std::vector<Border> borders_of(const Shape::Kind& kind, const Shape& shape);
  Border border(const Shape::PipelineSlot& from, const Shape::PipelineSlot& to, const Shape& shape);
  /// Ends of the slots' last backward passes; the longest is returned.
  double pipeline_seconds(const Shape::Kind& kind, const std::vector<Border>& borders, const Shape& shape,
                          std::vector<double>& ends);
  double gradients_end(const Shape& shape, const std::vector<std::vector<double>>& ends, double computed);
  const Reduction& reduction(const std::vector<int>& hosts);
  int queue(int host, int nic, bool out);
  /// What one pipeline's transfers get of a NIC: others slow it down by as much as they use it in a step.
  double share_of(int queue, double step) const;

  const SearchContext& context_;
  const Job& job_;
  const std::vector<Pool>& pools_;
  ShapeCosts costs_;
  std::vector<int> cluster_of_;  // by host
  std::map<std::vector<int>, Reduction> reductions_;
  std::map<std::tuple<int, int, bool>, int> queue_numbers_;
  std::vector<Queue> queues_;
  std::int64_t operations_ = 0;
  std::vector<double> forward_ready_, gradient_ready_;  // by slot and micro-batch
};

}  // namespace tombolo::planner
