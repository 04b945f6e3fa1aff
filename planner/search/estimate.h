// Estimates how long a shape would take per step without simulating it: good enough to rank thousands of
// shapes, of which the best are then simulated.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "planner/cost/engine_traffic.h"
#include "planner/model/replica_exchange.h"
#include "planner/search/shape_costs.h"

namespace tombolo::planner {

/// Estimates 1F1B with one chunk per slot. Each pipeline's operations are timed in order, with the transfers
/// between its slots, but pipelines do not wait for each other: where several send over one NIC, each is
/// slowed down by the share that the others use. The reduction of gradients follows, as fast as the busiest
/// NIC allows. It remembers costs, and is not thread-safe.
class Estimator {
 public:
  Estimator(const SearchContext& context, const Job& job, const std::vector<Pool>& pools);

  /// Seconds of a step; Scorer::kNever where memory is lacking, devices cannot share layers, hosts cannot
  /// communicate, or the job fixes something else.
  double seconds(const Shape& shape);
  ShapeCosts& costs() noexcept { return costs_; }
  /// The number of pipeline operations that were timed so far: a measure of work that does not depend on a
  /// clock.
  std::int64_t operations() const noexcept { return operations_; }
  /// Adds work that was done elsewhere.
  void count(std::int64_t operations) noexcept { operations_ += operations; }

 private:
  /// Seconds that a transfer between two slots occupies the sender in each direction, and takes until it has
  /// arrived.
  struct Border {
    double activation = 0, gradient = 0, activation_latency = 0, gradient_latency = 0;
    int queues[4] = {-1, -1, -1, -1};  // queue indices of both NICs, for the activation and for the gradient
    // Queue indices of the slowest link that it shares with others, and seconds alone on that link.
    int shared[2] = {-1, -1};
    double on_shared[2] = {0, 0};
    bool possible = true;
  };
  /// One direction of a NIC.
  struct Queue {
    double load = 0;    // seconds of transfers per step
    int pipelines = 0;  // pipelines that send over it
    double free = 0;    // when it has sent the gradients so far
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
  /// Computes the ends of the slots' last backward passes; returns the latest.
  double pipeline_seconds(const Shape::Kind& kind, const std::vector<Border>& borders, const Shape& shape,
                          std::vector<double>& ends);
  double gradients_end(const Shape& shape, const std::vector<std::vector<double>>& ends, double computed);
  const Reduction& reduction(const std::vector<int>& hosts, int degree);
  AllReduce all_reduce_among(const std::vector<int>& hosts, Reduction& result);
  /// What the replicas of a slot take to gather, and to scatter, one layer beside a pass; 0 where they do so
  /// once a step.
  struct LayerExchange {
    double gather_forward = 0, gather_backward = 0, scatter = 0;
  };
  ReplicaExchange exchange_when(const Shape& shape) const;
  LayerExchange exchange_of(const Shape& shape, std::size_t slot);
  /// What the replicas that divide experts take for one exchange of a slot's layer, in the slowest of their
  /// groups; each as if alone on its links.
  double expert_seconds(const Shape& shape, std::size_t slot);
  /// What a slot's layer takes beyond its share of the tokens, where replicas divide these: what they send
  /// each other, as if alone on its links, less what is computed meanwhile; in the slowest of their groups.
  struct ContextCost {
    double forward = 0, backward = 0;
    bool possible = true;  ///< false: their hosts cannot communicate
  };
  const ContextCost& context_cost(const Shape& shape, std::size_t slot);
  /// Of the hosts of all replicas, those of the replicas at one place of the groups that divide experts.
  std::vector<int> with_same_experts(const std::vector<int>& hosts, int place) const;
  bool own_nics(int host, int degree, const std::vector<int>* nics) const;
  int queue(int host, int nic, bool out);
  int shared_queue(const Path& path, double& bytes_per_second);
  /// The share of a NIC that one pipeline's transfers get: others slow it down by as much as they use it in a
  /// step.
  double share_of(int queue, double step) const;

  const SearchContext& context_;
  Job job_;  ///< as the shape that is estimated divides its experts
  const std::vector<Pool>& pools_;
  NicUse nics_;
  ShapeCosts costs_;
  std::vector<int> cluster_of_;                                       // by host
  std::map<std::pair<int, std::vector<int>>, Reduction> reductions_;  // by degree and hosts
  EngineTraffic traffic_;
  /// By pools of the replicas, degree, micro-batch and how many divide experts.
  std::map<std::tuple<std::vector<int>, int, int, int>, double> expert_seconds_;
  /// By pools of the replicas, degree, micro-batch and recomputation.
  std::map<std::tuple<std::vector<int>, int, int, Recompute>, ContextCost> context_costs_;
  std::map<std::tuple<int, int, bool>, int> queue_numbers_;
  std::vector<Queue> queues_;
  int layers_again_ = 0;  // of the shape that is estimated: ShapeCosts::layers_again()
  std::int64_t operations_ = 0;
  std::vector<double> forward_ready_, gradient_ready_;  // by slot and micro-batch
};

}  // namespace tombolo::planner
