// What a shape would take per step, without simulating it: good enough to rank thousands of shapes, of which
// the best are then simulated.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "planner/costs.h"
#include "planner/shape.h"

namespace tombolo::planner {

/// Of 1F1B, one chunk per place. Each pipeline's operations are timed in their order, with the transfers
/// between its places, but pipelines do not wait for each other: where several send over one NIC, each is
/// slowed down by as much as that is used. Gradients follow, as fast as the busiest NIC lets them. Remembers
/// costs; not thread-safe.
class Estimator {
 public:
  Estimator(const SearchContext& context, const Job& job, const std::vector<Pool>& pools);

  /// Layers one by one to the place that would be the fastest with one more and has room. False where there
  /// is no room.
  bool give_layers(Shape::Kind& kind, const Shape& shape);
  /// Micro-batches one by one to the kind that would end first; where replicas must be alike, equal shares.
  /// False where that does not divide.
  bool share_micro_batches(Shape& shape);
  /// Seconds of a step; Scorer::kNever where memory lacks, devices cannot share layers, hosts cannot talk, or
  /// the job fixes something else.
  double seconds(const Shape& shape);
  /// Layers that fit on that place: memory grows in proportion to them.
  int room(const Shape::Kind& kind, int place, const Shape& shape);
  /// Seconds of one layer for a micro-batch on `degree` devices of the pool; kNever where it cannot be.
  double layer_seconds(int pool, int degree, const Shape& shape);
  /// As layer_seconds(), of the output projection and the loss.
  double head_seconds(int pool, int degree, const Shape& shape);
  /// Operations of pipelines that were timed so far: a measure of work that no clock disturbs.
  std::int64_t operations() const noexcept { return operations_; }
  /// Adds work that was done elsewhere.
  void count(std::int64_t operations) noexcept { operations_ += operations; }

 private:
  struct Cost {
    PassSeconds layer, head;
    bool possible = true;
  };
  /// Seconds that a transfer between two places takes each way, and until it has arrived.
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
  /// Of an all-reduce among replicas on certain hosts, seconds per byte.
  struct Reduction {
    std::vector<std::pair<int, double>> queues;
    double slowest = 0, inside = 0, latency = 0;
    bool possible = true;
  };

  const Cost& costs(int pool, int degree, const Shape& shape);
  bool allowed(const Shape& shape) const;
  double tick(const Shape::Kind& kind, const Shape& shape);
  double estimate(const Shape& shape);
  std::vector<Border> borders_of(const Shape::Kind& kind, const Shape& shape);
  Border border(const Shape::Place& from, const Shape::Place& to, const Shape& shape);
  /// Ends of the places' last backward passes; the longest is returned.
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
  std::vector<int> cluster_of_;  // by host
  std::map<std::tuple<int, int, int, Recompute>, Cost> costs_;
  std::map<std::tuple<int, int, int, bool, bool, int, int, Recompute>, int> rooms_;
  std::map<std::vector<int>, Reduction> reductions_;
  std::map<std::tuple<int, int, bool>, int> queue_numbers_;
  std::vector<Queue> queues_;
  std::int64_t operations_ = 0;
  std::vector<double> forward_ready_, gradient_ready_;  // by place and micro-batch
};

}  // namespace tombolo::planner
