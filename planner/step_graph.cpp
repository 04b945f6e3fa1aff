#include "planner/step_graph.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "planner/all_reduce.h"
#include "planner/costs.h"
#include "planner/index.h"
#include "planner/schedule.h"

namespace tombolo::planner {

namespace {

using Activity = FluidEngine::Activity;
using Resource = FluidEngine::Resource;
using Kind = Operation::Kind;

/// The ranks of one place of a replica's pipeline, which work as one, and what they do.
struct Worker {
  int rank = 0;  // the first of them
  int replica = 0, place = 0, places = 1;
  int host = 0;
  PlaceCosts costs;

  struct Chunk {
    std::vector<Activity> forward, backward_first, backward_last;  // by micro-batch
  };
  std::vector<Chunk> chunks;
  std::map<Activity, Activity> before, after;     // first activity of each operation, last one of the one
                                                  // before; and the other way round (blocking sends)
  std::vector<Activity> reduced;                  // must have ended before its gradients are final
  Activity embedding_ready = FluidEngine::kNone;  // the tied embedding's gradient, summed over replicas
};

class Builder {
 public:
  Builder(const Plan& plan, const ClusterView& view, std::uint64_t bucket_bytes)
      : plan_(plan),
        model_(plan.job.model),
        view_(view),
        bucket_bytes_(static_cast<double>(bucket_bytes)),
        layer_ready_(plan.pipelines.size(), std::vector<Activity>(at(model_.layers), FluidEngine::kNone)) {
    if (view.cluster().shared_processor)
      processor_ = engine().add_resource(view.cluster().shared_processor->cores);
    const auto places = plan.places();
    for (int replica = 0; replica < plan.data_size(); ++replica) {
      workers_.emplace_back();
      for (int place = 0; place < plan.pipeline_size(replica); ++place) {
        const std::vector<int>& ranks = places[at(replica)][at(place)];
        Worker& worker = workers_.back().emplace_back();
        worker.rank = ranks.front();
        worker.replica = replica;
        worker.place = place;
        worker.places = plan.pipeline_size(replica);
        worker.host = view.host_index(plan.ranks[at(worker.rank)].host);
        worker.costs = place_costs(plan, view, ranks);
      }
    }
  }

  StepGraph build() {
    for (auto& pipeline : workers_)
      for (Worker& worker : pipeline) add_compute(worker);
    for (int replica = 0; replica < plan_.data_size(); ++replica)
      for (int stage = 0; at(stage) + 1 < plan_.stages(replica).size(); ++stage) add_border(replica, stage);
    add_reductions();
    if (model_.tied_embeddings)
      for (auto& pipeline : workers_)
        if (pipeline.size() > 1) add_tied_embedding(pipeline.front(), pipeline.back());
    add_optimizer();
    graph_.flows = network_.flows();
    return std::move(graph_);
  }

 private:
  FluidEngine& engine() { return graph_.engine; }

  Activity compute(const Worker& worker, double seconds) {
    return engine().add(seconds, 1.0,
                        {view_.shares_processor(worker.host) ? processor_ : FluidEngine::kNone});
  }

  void bar(Bar::Kind kind, const Worker& worker, int micro_batch, Activity first, Activity last) {
    graph_.bars.push_back({kind, worker.rank, micro_batch, first, last});
  }

  const Stage& stage_of(const Worker& worker, int chunk) const {
    return plan_.stages(worker.replica)[at(chunk * worker.places + worker.place)];
  }

  void add_compute(Worker& worker) {
    const Pipeline& pipeline = plan_.pipelines[at(worker.replica)];
    const int count = pipeline.micro_batches();
    worker.chunks.resize(at(plan_.job.chunks));
    for (Worker::Chunk& chunk : worker.chunks) {
      chunk.forward.resize(at(count));
      chunk.backward_first.resize(at(count));
      chunk.backward_last.resize(at(count));
    }
    const auto operations =
        operations_of(plan_.job.schedule, worker.place, worker.places, count, plan_.job.chunks);
    // A chunk's gradients become final in the last operation that adds to them.
    std::vector<int> left(worker.chunks.size(), count);
    Activity previous = FluidEngine::kNone;
    const auto append = [&](double seconds) {
      const Activity added = compute(worker, seconds);
      if (previous != FluidEngine::kNone) engine().order(previous, added);
      return previous = added;
    };
    for (const Operation& operation : operations) {
      const int i = operation.micro_batch;
      Worker::Chunk& chunk = worker.chunks[at(operation.chunk)];
      const Stage& stage = stage_of(worker, operation.chunk);
      const bool last_stage = &stage == &pipeline.stages.back();
      const PassSeconds seconds = worker.costs.stage(stage, stage.first_layer == 0, last_stage);
      const Activity ended = previous;
      if (operation.kind == Kind::kForward) {
        chunk.forward[at(i)] = append(seconds.forward);
        note_turn(worker, ended, chunk.forward[at(i)]);
        bar(Bar::Kind::kForward, worker, i, chunk.forward[at(i)], chunk.forward[at(i)]);
        continue;
      }
      const bool completes = operation.kind != Kind::kBackwardInput && --left[at(operation.chunk)] == 0;
      const double work = operation.kind == Kind::kBackward        ? seconds.backward()
                          : operation.kind == Kind::kBackwardInput ? seconds.backward_input
                                                                   : seconds.backward_weights;
      const auto [first, last] = completes ? append_last(worker, stage, operation.kind, append)
                                           : std::pair(previous = append(work), previous);
      note_turn(worker, ended, first);
      if (operation.kind == Kind::kBackwardWeights) {
        bar(Bar::Kind::kBackwardWeights, worker, i, first, last);
        continue;
      }
      chunk.backward_first[at(i)] = first;
      chunk.backward_last[at(i)] = last;
      bar(Bar::Kind::kBackward, worker, i, first, last);
    }
    worker.reduced.push_back(previous);
  }

  void note_turn(Worker& worker, Activity ended, Activity begun) const {
    if (!plan_.job.blocking_sends || ended == FluidEngine::kNone) return;
    worker.before[begun] = ended;
    worker.after[ended] = begun;
  }

  /// The operation that completes a chunk's gradients, layer by layer from the last to the first; the output
  /// projection and the final norm together with the first of these, as trainers announce them.
  template <typename Append>
  std::pair<Activity, Activity> append_last(Worker& worker, const Stage& stage, Kind kind,
                                            const Append& append) {
    const auto seconds = [&](const PassSeconds& pass) {
      return kind == Kind::kBackward ? pass.backward() : pass.backward_weights;
    };
    const bool last_stage = &stage == &plan_.stages(worker.replica).back();
    Activity first = FluidEngine::kNone, last = FluidEngine::kNone;
    if (last_stage) first = append(seconds(worker.costs.head));
    for (int layer = stage.first_layer + stage.layers - 1; layer >= stage.first_layer; --layer) {
      last =
          append(seconds(worker.costs.of_layer(layer)) + (layer == 0 ? seconds(worker.costs.embedding) : 0));
      if (first == FluidEngine::kNone) first = last;
      layer_ready_[at(worker.replica)][at(layer)] = last;
    }
    // Alone, each copy of the embedding is ready with its neighbour among the layers.
    if (last_stage) worker.embedding_ready = layer_ready_[at(worker.replica)][at(model_.layers - 1)];
    if (stage.first_layer == 0) worker.embedding_ready = last;
    return {first, last};
  }

  TransferEnd end(const Worker& worker) const {
    return {worker.rank, worker.host, plan_.stage(worker.place, worker.replica).tensor};
  }
  Activity add_flow(const Worker& from, const Worker& to, double bytes) {
    return network_.add(end(from), end(to), bytes);
  }
  double latency(const Worker& from, const Worker& to) const { return network_.latency(from.host, to.host); }

  /// Between virtual stages `stage` and `stage` + 1: activations one way, their gradients the other; each
  /// direction keeps its order, as a connection does.
  void add_border(int replica, int stage) {
    const Pipeline& pipeline = plan_.pipelines[at(replica)];
    auto& workers = workers_[at(replica)];
    const int places = static_cast<int>(workers.size());
    const Worker &before = workers[at(stage % places)], &after = workers[at((stage + 1) % places)];
    const Worker::Chunk &source = before.chunks[at(stage / places)],
                        &target = after.chunks[at((stage + 1) / places)];
    const Stage& sending = plan_.stages(replica)[at(stage)];
    const int copies = std::max(sending.tensor, plan_.stages(replica)[at(stage + 1)].tensor);
    // Every tensor-parallel rank needs its own copy, unless each holds but its part of the sequence.
    const double bytes = plan_.job.boundary_bytes(sending.first_layer + sending.layers - 1) *
                         pipeline.micro_batch * (plan_.job.sequence_parallel ? 1 : copies);
    const auto send = [&](const Worker& from, const Worker& to, int i, Activity produced, Activity consumer,
                          Activity& previous) -> Activity {
      const Activity flow = add_flow(from, to, bytes);
      const Activity arrival = engine().add_delay(latency(from, to));
      engine().order(produced, flow);
      if (previous != FluidEngine::kNone) engine().order(previous, flow);
      engine().order(flow, arrival);
      engine().order(arrival, consumer);
      if (plan_.job.blocking_sends) {
        // The receiver takes part once it has nothing before this to compute, and the sender goes on when
        // all is sent.
        if (const auto turn = to.before.find(consumer); turn != to.before.end())
          engine().order(turn->second, flow);
        if (const auto turn = from.after.find(produced); turn != from.after.end())
          engine().order(flow, turn->second);
      }
      bar(Bar::Kind::kSend, from, i, flow, arrival);
      return previous = flow;
    };
    Activity previous_activation = FluidEngine::kNone, previous_gradient = FluidEngine::kNone;
    std::vector<Activity> activations;
    std::map<Activity, Activity> gradient_after;  // by the operation that produced it
    for (int i = 0; i < pipeline.micro_batches(); ++i) {
      activations.push_back(
          send(before, after, i, source.forward[at(i)], target.forward[at(i)], previous_activation));
      const Activity produced = target.backward_last[at(i)];
      gradient_after[produced] =
          send(after, before, i, produced, source.backward_first[at(i)], previous_gradient);
    }
    if (!plan_.job.blocking_sends) return;
    // Two that meet to exchange do one after the other: activations, then the gradient that was computed
    // before.
    for (int i = 0; i < pipeline.micro_batches(); ++i)
      if (const auto turn = after.before.find(target.forward[at(i)]); turn != after.before.end())
        if (const auto gradient = gradient_after.find(turn->second); gradient != gradient_after.end())
          engine().order(activations[at(i)], gradient->second);
  }

  Worker& owner(int replica, int layer) {
    auto& workers = workers_[at(replica)];
    const std::vector<Stage>& stages = plan_.stages(replica);
    const auto holds = [layer](const Stage& stage) {
      return layer >= stage.first_layer && layer < stage.first_layer + stage.layers;
    };
    const auto found = std::ranges::find_if(stages, holds);
    return workers[static_cast<std::size_t>(found - stages.begin()) % workers.size()];
  }

  /// Ranges of layers with the same owners in every replica, the last first, as the backward pass completes
  /// them.
  void add_reductions() {
    if (plan_.data_size() < 2) return;
    int last = model_.layers - 1;
    while (last >= 0) {
      std::vector<Worker*> owners;
      int first = 0;
      for (int replica = 0; replica < plan_.data_size(); ++replica) {
        owners.push_back(&owner(replica, last));
        for (const Stage& stage : plan_.stages(replica))
          if (stage.first_layer <= last) first = std::max(first, stage.first_layer);
      }
      add_reduction(owners, first, last);
      last = first - 1;
    }
  }

  /// One bucket after the other, each in the phases of its all-reduce; with a sharded optimizer only a
  /// reduce-scatter, half of that.
  void add_reduction(const std::vector<Worker*>& owners, int first_layer, int last_layer) {
    std::vector<MemberPlace> places;
    for (const Worker* worker : owners) places.push_back({island(worker->host), worker->host});
    const AllReduce all_reduce = all_reduce_of(places);
    const double part = plan_.job.shard_optimizer ? 0.5 : 1, value = plan_.job.gradient_bytes();
    Activity previous = FluidEngine::kNone;
    double bytes = 0, parameters = 0;
    bool reduced_any = false;
    const auto reduce = [&](int layer) {
      const Activity begin = engine().add_delay(0);
      for (const Worker* worker : owners)
        engine().order(plan_.job.overlap_gradients ? layer_ready_[at(worker->replica)][at(layer)]
                                                   : worker->reduced.front(),
                       begin);
      if (previous != FluidEngine::kNone) engine().order(previous, begin);
      previous = add_phases(owners, all_reduce, part * bytes, part * all_reduce.rounds, begin);
      for (Worker* worker : owners) {
        worker->reduced.push_back(previous);
        // The last stage's copy of the embedding is in its first bucket, the first stage's in its last.
        if (first_layer == 0 || (last_layer == model_.layers - 1 && !reduced_any))
          worker->embedding_ready = previous;
      }
      reduced_any = true;
      bytes = 0;
    };
    for (int layer = last_layer; layer >= first_layer; --layer) {
      parameters = static_cast<double>(plan_.job.layer_parameters(layer, 1));
      if (layer == model_.layers - 1) parameters += head_parameters(*owners.front());
      bytes += parameters * value;
      if (layer == 0) {
        // After the layers, unless the bucket is full already: then in one of its own.
        if (bytes >= bucket_bytes_) reduce(layer);
        bytes += static_cast<double>(plan_.job.embedding_parameters()) * value;
      }
      if (layer == first_layer || bytes >= bucket_bytes_) reduce(layer);
    }
    if (plan_.job.shard_optimizer) gathers_.push_back({owners, all_reduce, first_layer, last_layer});
  }

  double head_parameters(const Worker& worker) const {
    double parameters = static_cast<double>(model_.norm_parameters());
    if (worker.places > 1 || !model_.tied_embeddings)
      parameters += static_cast<double>(model_.token_embedding_parameters());
    return parameters;
  }

  /// Every edge at once from `begin` on, then the latency of `rounds` messages in turn; returns the end.
  Activity add_phases(const std::vector<Worker*>& owners, const AllReduce& all_reduce, double bytes,
                      double rounds, Activity begin) {
    double slowest = 0;
    std::vector<Activity> flows;
    for (const Transfer& transfer : all_reduce.transfers) {
      const Worker &from = *owners[at(transfer.from)], &to = *owners[at(transfer.to)];
      flows.push_back(add_flow(from, to, bytes * transfer.fraction));
      engine().order(begin, flows.back());
      slowest = std::max(slowest, latency(from, to));
    }
    const Activity end = engine().add_delay(rounds * slowest);
    for (const Activity flow : flows) engine().order(flow, end);
    for (const Worker* worker : owners) bar(Bar::Kind::kReduce, *worker, -1, begin, end);
    return end;
  }

  /// The first and the last stage each hold the embedding: each sends the other its sum over the replicas as
  /// soon as it has it.
  void add_tied_embedding(Worker& first, Worker& last) {
    const double bytes =
        static_cast<double>(model_.token_embedding_parameters()) * plan_.job.gradient_bytes();
    for (const auto& [from, to] : {std::pair(&first, &last), std::pair(&last, &first)}) {
      const Activity flow = add_flow(*from, *to, bytes);
      const Activity arrival = engine().add_delay(latency(*from, *to));
      engine().order(from->embedding_ready, flow);
      engine().order(flow, arrival);
      bar(Bar::Kind::kSend, *from, -1, flow, arrival);
      from->reduced.push_back(flow);
      to->reduced.push_back(arrival);
    }
  }

  /// Every rank waits for the global gradient norm, so for all the others. With a sharded optimizer each then
  /// gathers the parameters that the others have updated.
  void add_optimizer() {
    std::size_t longest = 0;
    for (const auto& pipeline : workers_) longest = std::max(longest, pipeline.size());
    // Small vectors go by recursive doubling, over the replicas and then over the stages.
    const double rounds = std::ceil(std::log2(plan_.data_size())) + std::ceil(std::log2(longest));
    const Activity norm = engine().add_delay(rounds * network_.longest_latency());
    std::map<const Worker*, Activity> updated;
    for (auto& pipeline : workers_) {
      for (Worker& worker : pipeline) {
        for (const Activity reduced : worker.reduced) engine().order(reduced, norm);
        updated[&worker] = norm;
        if (worker.costs.optimizer <= 0) continue;
        const Activity update = compute(worker, worker.costs.optimizer);
        engine().order(norm, update);
        bar(Bar::Kind::kOptimizer, worker, -1, update, update);
        updated[&worker] = update;
      }
    }
    for (const Gather& gather : gathers_) {
      const Activity begin = engine().add_delay(0);
      for (const Worker* worker : gather.owners) engine().order(updated[worker], begin);
      double parameters = static_cast<double>(
          plan_.job.layer_parameters(gather.first_layer, gather.last_layer - gather.first_layer + 1));
      if (gather.last_layer == model_.layers - 1) parameters += head_parameters(*gather.owners.front());
      if (gather.first_layer == 0) parameters += static_cast<double>(plan_.job.embedding_parameters());
      add_phases(gather.owners, gather.all_reduce, 0.5 * parameters * model_.bytes_per_value,
                 0.5 * gather.all_reduce.rounds, begin);
    }
  }

  int island(int host) {
    return islands_.try_emplace(view_.host(host).cluster, static_cast<int>(islands_.size())).first->second;
  }

  /// Of updated parameters, among the owners of a range of layers.
  struct Gather {
    std::vector<Worker*> owners;
    AllReduce all_reduce;
    int first_layer = 0, last_layer = 0;
  };

  const Plan& plan_;
  const Model& model_;
  const ClusterView& view_;
  double bucket_bytes_;
  std::vector<std::vector<Worker>> workers_;        // by replica and place
  std::vector<std::vector<Activity>> layer_ready_;  // by replica and layer: its gradient is complete
  std::vector<Gather> gathers_;
  Resource processor_ = FluidEngine::kNone;
  std::map<std::string, int> islands_;
  StepGraph graph_;
  StepNetwork network_{plan_, view_, graph_.engine};
};

}  // namespace

StepGraph build_step(const Plan& plan, const ClusterView& view, std::uint64_t bucket_bytes) {
  return Builder(plan, view, bucket_bytes).build();
}

}  // namespace tombolo::planner
