// Puts the graph of a training step together: what each rank computes (step_passes.cpp, step_in_layers.cpp),
// what is sent and reduced (step_gradients.cpp, step_sharding.cpp), which replicas stand for others
// (step_alike.cpp), and all of it (step_graph.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/cost/all_reduce.h"
#include "planner/cost/costs.h"
#include "planner/cost/engine_reduction.h"
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
    /// Where sends block, by micro-batch: the last activity of the operation before each pass, and the first
    /// one of the operation after it.
    std::vector<Activity> before_forward, after_forward, before_backward, after_backward;
    /// Where parameters are gathered beside the forward pass: the first one is over, and all are there.
    Activity first_forward_over = FluidEngine::kNone;
  };
  std::vector<Chunk> chunks;
  Activity last = FluidEngine::kNone;  ///< the latest in the order in which it computes
  std::vector<ShardedPass> passes;     ///< in order, where replicas exchange something during them
  std::size_t exchanges = 0;      ///< among replicas that divide experts, that it has taken part in so far
  std::size_t rounds = 0;         ///< the same among replicas that divide rows' tokens
  std::vector<Activity> reduced;  ///< activities that must end before this worker's gradients are final
  Activity embedding_ready = FluidEngine::kNone;  ///< the tied embedding's gradient, summed over replicas
};

/// The seconds of an operation's pass.
double seconds_of(Operation::Kind kind, const PassSeconds& pass) noexcept;
/// The bar of what an operation computes.
Bar::Kind bar_kind(Operation::Kind kind) noexcept;

class StepBuilder {
 public:
  /// Of the first `replicas` of the plan, in the memory of an empty graph. `plan` and `view` must outlive it.
  StepBuilder(const Plan& plan, const ClusterView& view, std::uint64_t bucket_bytes, int replicas,
              StepGraph memory);
  /// Builds the graph, of all replicas. May be called only once.
  StepGraph build(AlikeReplicas alike);
  /// The seconds that no step can be shorter than, for what these replicas do by themselves. May be called in
  /// place of build().
  double least_seconds();

 private:
  using Activity = FluidEngine::Activity;
  using Resource = FluidEngine::Resource;
  static constexpr int kNone = -1;
  using Worker = StepWorker;
  /// How something is reduced.
  struct Reduction {
    EngineCall call;  ///< of the engine, where it is the one that reduces
    AllReduce all_reduce;
    double latency = 0;     ///< the longest of the transfers'
    int transfers = kNone;  ///< of the first transfer, among those that may be alike
  };
  /// Workers that reduce something together, and the ends of the transfers that this takes.
  struct Members {
    std::vector<Worker*> owners;
    std::vector<Worker*> acting;  ///< of the owners, those that are in the graph
    std::vector<TransferEnd> ends;
    std::optional<EngineModel> engine;           ///< where the collective engine reduces
    std::map<std::uint64_t, Reduction> by_size;  ///< by bytes with it, else kAnySize alone
  };
  static constexpr std::uint64_t kAnySize = 0;
  /// A part of the gradients that is reduced at once.
  struct Bucket {
    double bytes = 0;
    int layer = 0;  ///< it is complete when this layer's gradients are
  };
  /// A range of layers, and who has it in each replica.
  struct Range {
    std::vector<Worker*> owners;
    int first_layer = 0, last_layer = 0;
  };
  /// Which parameters are reduced or gathered: those of the experts that replicas divide, or the others.
  enum class Share { kOthers, kExperts };
  /// The exchange of updated parameters among the owners of a range of layers (sharded optimizer).
  struct Gather {
    const Members* members = nullptr;
    int first_layer = 0, last_layer = 0;
    Share share = Share::kOthers;
  };
  /// Adds an activity of so many seconds after the latest of a worker.
  using Append = std::function<Activity(double)>;
  /// The first and the last of the activities of a pass, or of a part of one.
  using Activities = std::pair<Activity, Activity>;
  /// An exchange of the replicas that divide experts, or rows' tokens, at one slot.
  struct ExchangeTurn {
    Activity begin = FluidEngine::kNone, end = FluidEngine::kNone;
  };
  /// The exchanges of all groups, by number of the group and slot, in the order in which all members come to
  /// them.
  using ExchangeTurns = std::map<std::pair<int, int>, std::vector<ExchangeTurn>>;

  FluidEngine& engine() { return graph_.engine; }
  /// Whether a worker is in the graph, and not another one that is alike.
  bool acts(const Worker& worker) const {
    return graph_.copies.empty() || graph_.copies[at(worker.replica)] > 0;
  }

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
  TransferEnd from_end(const SlotExchange::Crossing& crossing) {
    return {crossing.from.front(), crossing.from_host, crossing.from_ranks, network_.senders(crossing.from)};
  }
  TransferEnd to_end(const SlotExchange::Crossing& crossing) {
    return {crossing.to.front(), crossing.to_host, crossing.to_ranks, network_.senders(crossing.to)};
  }
  /// The transfers from one slot of a pipeline to another.
  class Way {
   public:
    Way(StepBuilder& builder, const Worker& from, const Worker& to);
    TransferActivities add(double bytes) {
      return for_all_ ? network_.add(*for_all_, bytes) : network_.add(route_, bytes);
    }

   private:
    StepNetwork& network_;
    StepNetwork::Route route_;
    const AlikeTransfer* for_all_ = nullptr;  ///< what stands for all that are alike
  };
  double latency(const Worker& from, const Worker& to) const { return network_.latency(from.host, to.host); }
  double sending_seconds(const Worker& from, const Worker& to, double bytes) const;

  void find_alike();
  Colour colour_of(int replica) const;
  /// The groups of replicas that exchange something in the middle of passes.
  enum class GroupKind { kExperts, kContext };
  /// A group by its number, and the slot.
  using GroupSlot = std::tuple<GroupKind, int, int>;
  void note_exchanges(GroupKind kind, int parts);
  const SlotExchange& exchange_of(const Worker& worker, GroupKind kind) const {
    return kind == GroupKind::kContext ? worker.costs.context.once : worker.costs.expert_exchange;
  }
  void note_transfer(const Worker& from, const Worker& to);
  void note_borders(int replica);
  void note_members();
  void note_members(const Range& range);
  void note_reduction(const Members& members, Reduction& reduction);
  void add_pipelines();
  void add_compute(Worker& worker);
  Activities append_pass(Worker& worker, const Operation& operation, const Append& append);
  Activities append_last(Worker& worker, const Operation& operation, const Append& append);
  /// What is computed before or after the layers of a part of a pass, seconds.
  struct Beside {
    double before = 0, after = 0;
  };
  Activities append_layers(Worker& worker, const Operation& operation, int from, int to, const Beside& beside,
                           const Append& append);
  /// Whether a pass waits for other hosts in its layers.
  bool crosses_in_layers(const Worker& worker, const Operation& operation) const {
    return (worker.costs.expert_exchange.crosses() || worker.costs.context.crosses()) &&
           operation.kind != Operation::Kind::kBackwardWeights;
  }
  bool waits_in_each_layer(const Worker& worker) const;
  Activities append_with_exchanges(Worker& worker, const Operation& operation, int from, int to,
                                   const Beside& beside, const Append& append);
  ExchangeTurn add_exchange(const Worker& worker, GroupKind kind, int group, double times, double waits);
  void exchange_among_experts(Worker& worker, const Operation& operation);
  void exchange_rows(Worker& worker, const Operation& operation, const ContextRound& round, double beside);
  void pass_bar(const Worker& worker, const Operation& operation, int from, int to, double seconds,
                const Activities& activities);
  double sending_seconds(const Worker& from, int chunk, int way) const;
  bool lacks_memory(const Worker& worker) const;
  double crowded_seconds(const Worker& worker, const Operation& operation) const;
  double gather_seconds(const Worker& to, double bytes) const;
  void add_border(int replica, int stage);

  Worker& owner(int replica, int layer);
  int cluster_number(int host);
  double head_parameters(const Worker& worker) const;
  std::vector<Range> ranges();
  void add_reductions();
  void add_reduction(const std::vector<Worker*>& owners, int first_layer, int last_layer, Share share);
  void explain(const Members& members, const EngineCall& call);
  std::vector<Bucket> buckets_of(const std::vector<Worker*>& owners, int first_layer, int last_layer,
                                 Share share) const;
  Members& members_of(const std::vector<Worker*>& owners);
  Reduction& reduction_of(Members& members, double bytes);
  const Reduction& reduction_of(const Members& members) const { return members.by_size.at(kAnySize); }
  std::vector<std::vector<Worker*>> with_same_experts(const std::vector<Worker*>& owners) const;
  std::vector<TransferEnd> ends_of(const std::vector<Worker*>& owners);
  Activity add_phases(const Members& members, const Reduction& reduction, double bytes, double rounds,
                      Activity begin);
  Activity add_sending(const Worker& from, const Worker& to, double bytes, Activity ready);
  void add_tied_embedding(Worker& first, Worker& last);
  /// Whether the collective engine reduces, once a step: what the bundled trainer does.
  bool engine_reduces() const {
    return traits(plan_.job.framework).nics == NicUse::kFirst && !plan_.job.sharded() &&
           plan_.job.expert_parts() == 1;
  }
  double norm_seconds();
  double engine_norm_seconds() const;
  void add_optimizer();
  bool gathers_beside_forward() const {
    return plan_.job.overlap_parameters && exchange_.gather == ParameterGather::kEachStep &&
           plan_.data_size() > 1;
  }
  double gathered_bytes(const Gather& gather, int first_layer, int last_layer) const;
  bool exchanges_in_passes() const {
    return exchange_.reduction == GradientReduction::kEachMicroBatch && plan_.data_size() > 1;
  }
  ShardedPass append_sharded(Worker& worker, const Operation& operation, const Append& append);
  double parameters_between(const Worker& worker, int first_layer, int last_layer, Share share) const;
  Activity after_all(const Members& members, std::size_t pass, Activity ShardedPass::*part);
  void add_sharded_exchanges();
  void add_sharded_exchanges(const Members& members, Share share);
  int layers_with(Share share, int first_layer, int last_layer) const {
    const int layers = last_layer - first_layer + 1;
    return share == Share::kExperts ? model_.mixtures(first_layer, layers) : layers;
  }
  void add_gathers_in_passes(const Members& members, Share share);
  void add_scatters_in_passes(const Members& members, Share share);
  void add_gather_beside_forward(const Gather& gather);

  const Plan& plan_;
  const Model& model_;
  const ClusterView& view_;
  double bucket_bytes_;
  ReplicaExchange exchange_;
  std::vector<std::vector<Worker>> workers_;        // by replica and slot
  std::vector<std::vector<Activity>> layer_ready_;  // by replica and layer: its gradient is complete
  std::vector<Gather> gathers_;
  ExchangeTurns expert_groups_, context_groups_;
  Resource processor_ = FluidEngine::kNone;
  bool crowded_ = false;   ///< some device lacks memory, and it is known how long passes wait for that
  bool explains_ = false;  ///< the graph says what is expected of the engine
  std::map<std::string, int> cluster_numbers_;
  StepGraph graph_;
  StepNetwork network_{plan_, view_, graph_.engine};
  std::map<std::vector<Worker*>, Members> members_;
  AlikeTransfers alike_;                                      ///< where replicas stand for others
  std::map<std::tuple<int, int, int>, int> noted_transfers_;  ///< in it, by replica and two slots
  std::map<GroupSlot, int> noted_exchanges_;                  ///< in it, the first of each
};

}  // namespace tombolo::planner
