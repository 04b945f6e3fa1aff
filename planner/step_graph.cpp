#include "planner/step_graph.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "planner/all_reduce.h"
#include "planner/schedule.h"

namespace tombolo::planner {

namespace {

using Activity = FluidEngine::Activity;
using Resource = FluidEngine::Resource;

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

class Builder {
 public:
  Builder(const Plan& plan, const ClusterView& view, std::uint64_t bucket_bytes)
      : plan_(plan),
        view_(view),
        bucket_bytes_(static_cast<double>(bucket_bytes)),
        stages_(plan.pipeline_size()),
        replicas_(plan.data_size()),
        micro_batches_(plan.micro_batches()),
        grid_(at(stages_), std::vector<int>(at(replicas_), -1)),
        work_(plan.ranks.size()) {
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      const RankPlace& place = plan.ranks[rank];
      grid_[at(place.stage)][at(place.replica)] = static_cast<int>(rank);
      hosts_.push_back(view.host_index(place.host));
    }
    if (view.cluster().shared_processor)
      processor_ = engine().add_resource(view.cluster().shared_processor->cores);
  }

  StepGraph build() {
    for (std::size_t rank = 0; rank < plan_.ranks.size(); ++rank) add_compute(static_cast<int>(rank));
    for (int replica = 0; replica < replicas_; ++replica)
      for (int stage = 0; stage + 1 < stages_; ++stage)
        add_border(grid_[at(stage)][at(replica)], grid_[at(stage + 1)][at(replica)]);
    for (int stage = 0; stage < stages_; ++stage) add_reduction(stage);
    if (stages_ > 1)
      for (int replica = 0; replica < replicas_; ++replica)
        add_tied_embedding(grid_[0][at(replica)], grid_[at(stages_ - 1)][at(replica)]);
    add_optimizer();
    for (const auto& [nics, bytes] : bytes_) {
      const auto& [from_host, from_nic, to_host, to_nic] = nics;
      graph_.flows.push_back({from_host, from_nic, to_host, to_nic, bytes});
    }
    return std::move(graph_);
  }

 private:
  /// A gradient of `bytes` is complete when `ready` ends.
  struct Piece {
    double bytes = 0;
    Activity ready = 0;
  };
  struct RankWork {
    std::vector<Activity> forward, backward_first, backward_last;  // by micro-batch
    std::vector<Piece> gradients;                                  // in the order in which they become ready
    std::vector<Activity> reduced;  // must have ended before the rank's gradients are final
    Activity embedding_ready = 0;   // the tied embedding's gradient, summed over replicas
  };

  FluidEngine& engine() { return graph_.engine; }

  Activity compute(int rank, double seconds) {
    return engine().add(seconds, 1.0,
                        {view_.shares_processor(hosts_[at(rank)]) ? processor_ : FluidEngine::kNone});
  }

  void bar(Bar::Kind kind, int rank, int micro_batch, Activity first, Activity last) {
    graph_.bars.push_back({kind, rank, micro_batch, first, last});
  }

  void add_compute(int rank) {
    const RankPlace& place = plan_.ranks[at(rank)];
    const StageCosts costs = stage_costs(plan_, view_, rank);
    RankWork& work = work_[at(rank)];
    work.forward.resize(at(micro_batches_));
    work.backward_first.resize(at(micro_batches_));
    work.backward_last.resize(at(micro_batches_));
    Activity previous = FluidEngine::kNone;
    const auto append = [&](double seconds) {
      const Activity added = compute(rank, seconds);
      if (previous != FluidEngine::kNone) engine().order(previous, added);
      return previous = added;
    };
    for (const Operation& operation : one_forward_one_backward(place.stage, stages_, micro_batches_)) {
      const std::size_t i = at(operation.micro_batch);
      if (!operation.backward) {
        work.forward[i] = append(costs.forward());
        bar(Bar::Kind::kForward, rank, operation.micro_batch, work.forward[i], work.forward[i]);
        continue;
      }
      if (operation.micro_batch + 1 < micro_batches_) {
        work.backward_first[i] = work.backward_last[i] = append(costs.backward());
      } else {
        add_last_backward(place.stage, costs, work, append);
      }
      bar(Bar::Kind::kBackward, rank, operation.micro_batch, work.backward_first[i], work.backward_last[i]);
    }
  }

  // In the order in which the backward pass completes them: the layers from the last to the first, the output
  // projection and the final norm together with the first of these, as the trainer announces them; then the
  // embeddings.
  template <typename Append>
  void add_last_backward(int stage, const StageCosts& costs, RankWork& work, const Append& append) {
    const Model& model = plan_.job.model;
    const double value = model.bytes_per_value;
    const bool first = stage == 0, last = stage == stages_ - 1;
    const std::size_t i = at(micro_batches_ - 1);
    bool begun = false;
    const auto append_piece = [&](double seconds) {
      work.backward_last[i] = append(seconds);
      if (!begun) work.backward_first[i] = work.backward_last[i];
      begun = true;
    };
    double head = 0;
    if (last) {
      head = static_cast<double>(model.final_norm_parameters());
      if (!first) head += static_cast<double>(model.token_embedding_parameters());
      append_piece(StageCosts::kBackwardFactor * costs.head_forward);
    }
    for (int layer = 0; layer < costs.layers; ++layer) {
      append_piece(StageCosts::kBackwardFactor * costs.layer_forward);
      const double parameters = static_cast<double>(model.layer_parameters()) + (layer == 0 ? head : 0);
      work.gradients.push_back({parameters * value, work.backward_last[i]});
    }
    if (first) {
      const double parameters = static_cast<double>(model.embedding_parameters());
      work.gradients.push_back({parameters * value, work.backward_last[i]});
    }
    work.embedding_ready = first ? work.backward_last[i] : work.gradients.front().ready;
    work.reduced.push_back(work.backward_last[i]);
  }

  Resource nic(int host, int index, bool out) {
    const auto [place, added] = nics_.try_emplace({host, index, out}, 0);
    if (added)
      place->second = engine().add_resource(out ? view_.egress(host, index) : view_.ingress(host, index));
    return place->second;
  }

  /// A transfer without its latency; returns the activity of its bytes.
  Activity add_flow(int from_rank, int to_rank, double bytes) {
    const int from = hosts_[at(from_rank)], to = hosts_[at(to_rank)];
    const Path& path = view_.path(from, to);
    if (path.inside_host) {
      if (path.bytes_per_second <= 0) return engine().add_delay(0);
      const auto [pair, added] = pairs_.try_emplace({from, -1, to, -1}, 0);
      if (added) pair->second = engine().add_resource(path.bytes_per_second);
      return engine().add(bytes, path.bytes_per_second, {pair->second});
    }
    const auto [pair, added] = pairs_.try_emplace({from, path.from_nic, to, path.to_nic}, 0);
    if (added) pair->second = engine().add_resource(path.bytes_per_second);
    bytes_[{from, path.from_nic, to, path.to_nic}] += bytes;
    return engine().add(bytes, path.bytes_per_second,
                        {nic(from, path.from_nic, true), nic(to, path.to_nic, false), pair->second});
  }

  double latency(int from_rank, int to_rank) const {
    return view_.path(hosts_[at(from_rank)], hosts_[at(to_rank)]).latency_seconds;
  }

  /// Activations one way, their gradients the other; each direction keeps its order, as a connection does.
  void add_border(int before, int after) {
    const double bytes = plan_.job.model.boundary_bytes() * plan_.job.micro_batch;
    RankWork &source = work_[at(before)], &target = work_[at(after)];
    const auto send = [&](Bar::Kind kind, int from, int to, int i, Activity produced, Activity consumer,
                          Activity& previous) {
      const Activity flow = add_flow(from, to, bytes);
      const Activity arrival = engine().add_delay(latency(from, to));
      engine().order(produced, flow);
      if (previous != FluidEngine::kNone) engine().order(previous, flow);
      engine().order(flow, arrival);
      engine().order(arrival, consumer);
      bar(kind, from, i, flow, arrival);
      previous = flow;
    };
    Activity previous_activation = FluidEngine::kNone, previous_gradient = FluidEngine::kNone;
    for (int i = 0; i < micro_batches_; ++i) {
      send(Bar::Kind::kSend, before, after, i, source.forward[at(i)], target.forward[at(i)],
           previous_activation);
      send(Bar::Kind::kSend, after, before, i, target.backward_last[at(i)], source.backward_first[at(i)],
           previous_gradient);
    }
  }

  /// One bucket after the other, each in the phases of its all-reduce.
  void add_reduction(int stage) {
    const std::vector<int>& members = grid_[at(stage)];
    if (members.size() < 2) return;
    std::vector<MemberPlace> places;
    for (const int rank : members) places.push_back({island(hosts_[at(rank)]), hosts_[at(rank)]});
    const AllReduce all_reduce = all_reduce_of(places);
    const std::size_t pieces = work_[at(members.front())].gradients.size();
    Activity previous = FluidEngine::kNone;
    double bytes = 0;
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      bytes += work_[at(members.front())].gradients[piece].bytes;
      if (piece + 1 < pieces && bytes < bucket_bytes_) continue;
      const Activity begin = engine().add_delay(0);
      for (const int rank : members) engine().order(work_[at(rank)].gradients[piece].ready, begin);
      if (previous != FluidEngine::kNone) engine().order(previous, begin);
      double slowest = 0;
      std::vector<Activity> flows;
      for (const Transfer& transfer : all_reduce.transfers) {
        const int from = members[at(transfer.from)], to = members[at(transfer.to)];
        flows.push_back(add_flow(from, to, bytes * transfer.fraction));
        engine().order(begin, flows.back());
        slowest = std::max(slowest, latency(from, to));
      }
      previous = engine().add_delay(all_reduce.rounds * slowest);
      for (const Activity flow : flows) engine().order(flow, previous);
      for (const int rank : members) {
        RankWork& work = work_[at(rank)];
        bar(Bar::Kind::kAllReduce, rank, -1, begin, previous);
        work.reduced.push_back(previous);
        // The last stage's copy of the embedding is in its first bucket, the first stage's in its last.
        if (stage == 0 || work.reduced.size() == 2) work.embedding_ready = previous;
      }
      bytes = 0;
    }
  }

  /// The first and the last stage each hold the embedding: each sends the other its sum over the replicas as
  /// soon as it has it.
  void add_tied_embedding(int first, int last) {
    const double bytes =
        static_cast<double>(plan_.job.model.token_embedding_parameters()) * plan_.job.model.bytes_per_value;
    for (const auto& [from, to] : {std::pair(first, last), std::pair(last, first)}) {
      const Activity flow = add_flow(from, to, bytes);
      const Activity arrival = engine().add_delay(latency(from, to));
      engine().order(work_[at(from)].embedding_ready, flow);
      engine().order(flow, arrival);
      bar(Bar::Kind::kSend, from, -1, flow, arrival);
      work_[at(from)].reduced.push_back(flow);
      work_[at(to)].reduced.push_back(arrival);
    }
  }

  /// Every rank waits for the global gradient norm, so for all the others.
  void add_optimizer() {
    double slowest = 0;
    for (const auto& [pair, resource] : pairs_)
      slowest = std::max(slowest, view_.path(std::get<0>(pair), std::get<2>(pair)).latency_seconds);
    // Small vectors go by recursive doubling, over the replicas and then over the stages.
    const double rounds = std::ceil(std::log2(replicas_)) + std::ceil(std::log2(stages_));
    const Activity norm = engine().add_delay(rounds * slowest);
    for (std::size_t rank = 0; rank < work_.size(); ++rank)
      for (const Activity reduced : work_[rank].reduced) engine().order(reduced, norm);
    for (std::size_t rank = 0; rank < work_.size(); ++rank) {
      const double seconds = stage_costs(plan_, view_, static_cast<int>(rank)).optimizer;
      if (seconds <= 0) continue;
      const Activity update = compute(static_cast<int>(rank), seconds);
      engine().order(norm, update);
      bar(Bar::Kind::kOptimizer, static_cast<int>(rank), -1, update, update);
    }
  }

  int island(int host) {
    return islands_.try_emplace(view_.host(host).cluster, static_cast<int>(islands_.size())).first->second;
  }

  const Plan& plan_;
  const ClusterView& view_;
  double bucket_bytes_;
  int stages_, replicas_, micro_batches_;
  std::vector<std::vector<int>> grid_;  // rank by stage and replica
  std::vector<int> hosts_;              // by rank
  std::vector<RankWork> work_;
  Resource processor_ = FluidEngine::kNone;
  std::map<std::tuple<int, int, bool>, Resource> nics_;
  std::map<std::tuple<int, int, int, int>, Resource> pairs_;
  std::map<std::tuple<int, int, int, int>, double> bytes_;
  std::map<std::string, int> islands_;
  StepGraph graph_;
};

}  // namespace

StageCosts stage_costs(const Plan& plan, const ClusterView& view, int rank) {
  const RankPlace& place = plan.ranks[at(rank)];
  const Model& model = plan.job.model;
  const int host = view.host_index(place.host);
  const double speed = view.flops_per_second(host, place.device);
  const bool first = place.stage == 0, last = place.stage + 1 == plan.pipeline_size();
  StageCosts costs;
  costs.layers = plan.stages[at(place.stage)].layers;
  costs.layer_forward = model.layer_forward_flops() * plan.job.micro_batch / speed;
  if (last) costs.head_forward = model.head_forward_flops() * plan.job.micro_batch / speed;
  const double memory_speed = view.memory_speed(host, place.device);
  if (memory_speed > 0) {
    // Gradients are cleared before the step, and read for the norm; Adam reads a parameter, its gradient and
    // both moments, and writes all but the gradient.
    const double per_parameter = 5.0 * model.bytes_per_value + 16;
    costs.optimizer =
        static_cast<double>(model.stage_parameters(costs.layers, first, last)) * per_parameter / memory_speed;
  }
  return costs;
}

StepGraph build_step(const Plan& plan, const ClusterView& view, std::uint64_t bucket_bytes) {
  return Builder(plan, view, bucket_bytes).build();
}

}  // namespace tombolo::planner
