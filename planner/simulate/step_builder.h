// Puts the graph of a training step together: what each rank computes (step_passes.cpp), what is sent and
// reduced (step_gradients.cpp, step_sharding.cpp), and all of it (step_graph.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "planner/cost/all_reduce.h"
#include "planner/cost/costs.h"
#include "planner/model/replica_exchange.h"
#include "planner/model/schedule.h"
#include "planner/simulate/step_graph.h"

namespace tombolo::planner {

/// A pass during which replicas exchange what they share, with the activities of its parts.
struct ShardedPass {
  using Activity = FluidEngine::Activity;

  Operation operation;
  Activity begin = FluidEngine::kNone;  ///< takes no time, and comes before all others
  Activity opening =
      FluidEngine::kNone;  ///< with the layer that is computed first; kNone where that is the last
  Activity before_closing = FluidEngine::kNone;  ///< precedes the next
  Activity closing = FluidEngine::kNone;         ///< the layer that is computed last
};

/// The ranks of one pipeline slot, which are simulated as one worker, and their activities.
struct StepWorker {
  using Activity = FluidEngine::Activity;

  int rank = 0;  ///< the first of the ranks
  int replica = 0, slot = 0, slots = 1;
  int host = 0;
  SlotCosts costs;

  struct Chunk {
    /// By micro-batch: the first and the last activity of each pass.
    std::vector<Activity> forward_first, forward_last, backward_first, backward_last;
    /// Where parameters are gathered beside the forward pass: the first one is over, and all are there.
    Activity first_forward_over = FluidEngine::kNone;
  };
  std::vector<Chunk> chunks;
  Activity last = FluidEngine::kNone;  ///< the latest in the order in which it computes
  std::vector<ShardedPass> passes;     ///< in order, where replicas exchange something during them
  /// With blocking sends: `before` leads from the first activity of each operation to the last activity of
  /// the operation before it, and `after` the other way.
  std::map<Activity, Activity> before, after;
  std::vector<Activity> reduced;  ///< activities that must end before this worker's gradients are final
  Activity embedding_ready = FluidEngine::kNone;  ///< the tied embedding's gradient, summed over replicas
};

class StepBuilder {
 public:
  /// `plan` and `view` must outlive it.
  StepBuilder(const Plan& plan, const ClusterView& view, std::uint64_t bucket_bytes);
  /// Builds the graph. May be called only once.
  StepGraph build();

 private:
  using Activity = FluidEngine::Activity;
  using Resource = FluidEngine::Resource;
  using Worker = StepWorker;
  /// Workers that reduce something together, how, and the ends of the transfers that this takes.
  struct Members {
    std::vector<Worker*> owners;
    AllReduce all_reduce;
    std::vector<TransferEnd> ends;
  };
  /// The exchange of updated parameters among the owners of a range of layers (sharded optimizer).
  struct Gather {
    Members members;
    int first_layer = 0, last_layer = 0;
  };

  FluidEngine& engine() { return graph_.engine; }

  Activity compute(const Worker& worker, double seconds) {
    return engine().add(seconds, 1.0,
                        {view_.shares_processor(worker.host) ? processor_ : FluidEngine::kNone});
  }
  void bar(Bar::Kind kind, const Worker& worker, int micro_batch, Activity first, Activity last) {
    graph_.bars.push_back({kind, worker.rank, micro_batch, first, last});
  }

  const Stage& stage_of(const Worker& worker, int chunk) const {
    return plan_.stages(worker.replica)[at(chunk * worker.slots + worker.slot)];
  }
  TransferEnd end(const Worker& worker) const {
    return {worker.rank, worker.host, plan_.stage(worker.slot, worker.replica).tensor, worker.rank};
  }
  TransferActivities add_flow(const Worker& from, const Worker& to, double bytes) {
    return network_.add(end(from), end(to), bytes);
  }
  double latency(const Worker& from, const Worker& to) const { return network_.latency(from.host, to.host); }
  double sending_seconds(const Worker& from, const Worker& to, double bytes) const;

  void add_compute(Worker& worker);
  std::pair<Activity, Activity> append_last(Worker& worker, const Stage& stage, Operation::Kind kind,
                                            const std::function<Activity(double)>& append);
  double sending_seconds(const Worker& from, int chunk, int way) const;
  double gather_seconds(const Worker& to, double bytes) const;
  void note_turn(Worker& worker, Activity ended, Activity begun) const;
  void add_border(int replica, int stage);

  Worker& owner(int replica, int layer);
  int cluster_number(int host);
  double head_parameters(const Worker& worker) const;
  void add_reductions();
  void add_reduction(const std::vector<Worker*>& owners, int first_layer, int last_layer);
  std::vector<TransferEnd> ends_of(const std::vector<Worker*>& owners, const AllReduce& all_reduce);
  Activity add_phases(const Members& members, double bytes, double rounds, Activity begin);
  Activity add_sending(const Worker& from, const Worker& to, double bytes, Activity ready);
  void add_tied_embedding(Worker& first, Worker& last);
  void add_optimizer();
  bool gathers_beside_forward() const {
    return plan_.job.overlap_parameters && exchange_.gather == ParameterGather::kEachStep &&
           plan_.data_size() > 1;
  }
  double gathered_bytes(const Gather& gather, int first_layer, int last_layer) const;
  bool exchanges_in_passes() const {
    return exchange_.reduction == GradientReduction::kEachMicroBatch && plan_.data_size() > 1;
  }
  ShardedPass append_sharded(Worker& worker, const Operation& operation,
                             const std::function<Activity(double)>& append);
  double parameters_between(const Worker& worker, int first_layer, int last_layer) const;
  Activity after_all(const Members& members, std::size_t pass, Activity ShardedPass::*part);
  void add_sharded_exchanges();
  void add_gathers_in_passes(const Members& members);
  void add_scatters_in_passes(const Members& members);
  void add_gather_beside_forward(const Gather& gather);

  const Plan& plan_;
  const Model& model_;
  const ClusterView& view_;
  double bucket_bytes_;
  ReplicaExchange exchange_;
  std::vector<std::vector<Worker>> workers_;        // by replica and slot
  std::vector<std::vector<Activity>> layer_ready_;  // by replica and layer: its gradient is complete
  std::vector<Gather> gathers_;
  Resource processor_ = FluidEngine::kNone;
  std::map<std::string, int> cluster_numbers_;
  StepGraph graph_;
  StepNetwork network_{plan_, view_, graph_.engine};
};

}  // namespace tombolo::planner
