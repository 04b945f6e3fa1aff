// The end of a step: what is reduced, exchanged and updated.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "planner/model/index.h"
#include "planner/simulate/step_builder.h"

namespace tombolo::planner {

StepWorker& StepBuilder::owner(int replica, int layer) {
  auto& workers = workers_[at(replica)];
  const std::vector<Stage>& stages = plan_.stages(replica);
  const auto holds = [layer](const Stage& stage) {
    return layer >= stage.first_layer && layer < stage.first_layer + stage.layers;
  };
  const auto found = std::ranges::find_if(stages, holds);
  return workers[static_cast<std::size_t>(found - stages.begin()) % workers.size()];
}

/// The ranges of layers that have the same owners in every replica, the last one first, because the backward
/// pass completes it first.
auto StepBuilder::ranges() -> std::vector<Range> {
  std::vector<Range> found;
  int last = plan_.data_size() < 2 ? -1 : model_.layers - 1;
  while (last >= 0) {
    Range& range = found.emplace_back();
    range.last_layer = last;
    for (int replica = 0; replica < plan_.data_size(); ++replica) {
      range.owners.push_back(&owner(replica, last));
      for (const Stage& stage : plan_.stages(replica))
        if (stage.first_layer <= last) range.first_layer = std::max(range.first_layer, stage.first_layer);
    }
    last = range.first_layer - 1;
  }
  return found;
}

void StepBuilder::add_reductions() {
  for (const Range& range : ranges()) {
    add_reduction(range.owners, range.first_layer, range.last_layer, Share::kOthers);
    for (const std::vector<Worker*>& some : with_same_experts(range.owners))
      add_reduction(some, range.first_layer, range.last_layer, Share::kExperts);
  }
}

/// Adds the reduction of one range: one bucket after the other, each in the phases of its all-reduce. With a
/// sharded optimizer it is only a reduce-scatter, which is half of that.
void StepBuilder::add_reduction(const std::vector<Worker*>& owners, int first_layer, int last_layer,
                                Share share) {
  Members& members = members_of(owners);
  const double part = plan_.job.sharded() ? 0.5 : 1;
  Activity previous = FluidEngine::kNone;
  for (const Bucket& bucket : buckets_of(owners, first_layer, last_layer, share)) {
    const Activity begin = engine().add_delay(0);
    for (const Worker* worker : members.acting)
      engine().order(plan_.job.overlap_gradients ? layer_ready_[at(worker->replica)][at(bucket.layer)]
                                                 : worker->reduced.front(),
                     begin);
    const bool first = previous == FluidEngine::kNone;
    if (!first) engine().order(previous, begin);
    const Reduction& reduction = reduction_of(members, bucket.bytes);
    if (members.engine && explains_) explain(members, reduction.call);
    previous = add_phases(members, reduction, part * bucket.bytes, part * reduction.all_reduce.rounds, begin);
    for (Worker* worker : members.acting) {
      worker->reduced.push_back(previous);
      // The last stage's copy of the embedding is in its first bucket, and the first stage's in its last.
      if (share == Share::kExperts) continue;
      if (first_layer == 0 || (last_layer == model_.layers - 1 && first)) worker->embedding_ready = previous;
    }
  }
  if (plan_.job.sharded()) gathers_.push_back({&members, first_layer, last_layer, share});
}

/// Adds a call of the engine to what is expected of it.
void StepBuilder::explain(const Members& members, const EngineCall& call) {
  ExpectedReduction one;
  for (const Worker* worker : members.owners) one.ranks.push_back(worker->rank);
  one.bytes = call.problem.bytes();
  const auto known = std::ranges::find_if(graph_.reductions, [&](const ExpectedReduction& other) {
    return other.ranks == one.ranks && other.bytes == one.bytes;
  });
  if (known != graph_.reductions.end()) {
    ++known->calls;
    return;
  }
  one.calls = 1;
  one.algorithm = call.choice.name();
  if (!call.choice.through_host_memory() && call.choice.algorithm->in_pieces)
    one.piece_bytes = call.choice.tuning.segment_bytes;
  one.seconds = call.seconds;
  one.why = members.engine->why(call);
  graph_.reductions.push_back(std::move(one));
}

/// The buckets of a range, in the order in which they are complete.
auto StepBuilder::buckets_of(const std::vector<Worker*>& owners, int first_layer, int last_layer,
                             Share share) const -> std::vector<Bucket> {
  const double value = plan_.job.gradient_bytes();
  std::vector<Bucket> buckets;
  double bytes = 0;
  const auto close = [&](int layer) {
    buckets.push_back({bytes, layer});
    bytes = 0;
  };
  for (int layer = last_layer; layer >= first_layer; --layer) {
    const auto experts = static_cast<double>(plan_.job.expert_parameters(layer, 1));
    if (share == Share::kExperts) {
      bytes += experts * value;
      if (bytes > 0 && (layer == first_layer || bytes >= bucket_bytes_)) close(layer);
      continue;
    }
    double parameters = static_cast<double>(plan_.job.layer_parameters(layer, 1)) - experts;
    if (layer == model_.layers - 1) parameters += head_parameters(*owners.front());
    bytes += parameters * value;
    if (layer == 0) {
      // The embedding joins the first layer's bucket, unless that is full already; then it has a bucket of
      // its own.
      if (bytes >= bucket_bytes_) close(layer);
      bytes += static_cast<double>(plan_.job.embedding_parameters()) * value;
    }
    if (layer == first_layer || bytes >= bucket_bytes_) close(layer);
  }
  return buckets;
}

auto StepBuilder::members_of(const std::vector<Worker*>& owners) -> Members& {
  const auto [entry, added] = members_.try_emplace(owners);
  Members& members = entry->second;
  if (!added) return members;
  members.owners = members.acting = owners;
  members.ends = ends_of(owners);
  if (engine_reduces()) {
    std::vector<int> hosts;
    for (const Worker* worker : owners) hosts.push_back(worker->host);
    members.engine.emplace(view_, hosts);
  } else {
    reduction_of(members, kAnySize);
  }
  return members;
}

auto StepBuilder::reduction_of(Members& members, double bytes) -> Reduction& {
  const std::uint64_t size = members.engine ? static_cast<std::uint64_t>(bytes) : kAnySize;
  const auto [entry, added] = members.by_size.try_emplace(size);
  Reduction& reduction = entry->second;
  if (!added) return reduction;
  if (members.engine) {
    reduction.call = members.engine->all_reduce(bytes);
    reduction.all_reduce = members.engine->traffic(reduction.call, graph_.traffic);
  } else {
    std::vector<MemberLocation> locations;
    for (const Worker* worker : members.owners)
      locations.push_back({cluster_number(worker->host), worker->host});
    reduction.all_reduce = all_reduce_of(locations, view_.routing());
  }
  for (const Transfer& transfer : reduction.all_reduce.transfers)
    reduction.latency = std::max(
        reduction.latency, latency(*members.owners[at(transfer.from)], *members.owners[at(transfer.to)]));
  return reduction;
}

/// The owners, by replica, in groups that hold the same of the experts that replicas divide; none where no
/// two do.
auto StepBuilder::with_same_experts(const std::vector<Worker*>& owners) const
    -> std::vector<std::vector<Worker*>> {
  const std::size_t parts = at(plan_.job.expert_parts());
  if (parts == 1 || owners.size() == parts) return {};
  std::vector<std::vector<Worker*>> groups(parts);
  for (std::size_t i = 0; i < owners.size(); ++i) groups[i % parts].push_back(owners[i]);
  return groups;
}

double StepBuilder::head_parameters(const Worker& worker) const {
  double parameters = static_cast<double>(model_.norm_parameters());
  if (worker.slots > 1 || !model_.tied_embeddings)
    parameters += static_cast<double>(model_.token_embedding_parameters());
  return parameters;
}

/// The ends at which each owner sends and receives. NCCL's rings cross between two hosts through the NICs of
/// all members there, because its channels begin at different ones.
std::vector<TransferEnd> StepBuilder::ends_of(const std::vector<Worker*>& owners) {
  std::vector<TransferEnd> ends;
  for (const Worker* owner : owners) ends.push_back(end(*owner));
  std::map<int, std::vector<int>> ranks_on;
  for (const TransferEnd& one : ends) ranks_on[one.host].push_back(one.rank);
  for (auto& [host, ranks] : ranks_on) std::ranges::sort(ranks);
  for (TransferEnd& one : ends) one.senders = network_.senders(ranks_on[one.host]);
  return ends;
}

/// Adds an all-reduce: all its transfers at once from `begin` on, then the latencies of `rounds` messages one
/// after the other. Returns its end.
FluidEngine::Activity StepBuilder::add_phases(const Members& members, const Reduction& reduction,
                                              double bytes, double rounds, Activity begin) {
  const bool alike = !graph_.copies.empty();
  std::vector<Activity> flows;
  int noted = reduction.transfers;
  for (const Transfer& transfer : reduction.all_reduce.transfers) {
    const int number = noted++;
    if (alike && !alike_.is_first(number)) continue;
    const double part = bytes * transfer.fraction;
    const TransferActivities flow =
        alike ? network_.add(alike_.for_all(number), part)
              : network_.add(members.ends[at(transfer.from)], members.ends[at(transfer.to)], part);
    flows.push_back(flow.last);
    engine().order(begin, flow.first);
    const Worker &from = *members.owners[at(transfer.from)], &to = *members.owners[at(transfer.to)];
    if (const Activity sending = add_sending(from, to, part, begin); sending != FluidEngine::kNone)
      flows.push_back(sending);
  }
  Activity end = engine().add_delay(rounds * reduction.latency);
  for (const Activity flow : flows) engine().order(flow, end);
  if (reduction.all_reduce.least_seconds > 0) {
    const Activity least = engine().add_delay(reduction.all_reduce.least_seconds),
                   arrived = std::exchange(end, engine().add_delay(0));
    engine().order(begin, least);
    engine().order(least, end);
    engine().order(arrived, end);
  }
  for (const Worker* worker : members.acting) bar(Bar::Kind::kReduce, *worker, -1, begin, end);
  return end;
}

/// Adds the processor time of sending, which runs beside the passes as a thread of its own; kNone where there
/// is none.
FluidEngine::Activity StepBuilder::add_sending(const Worker& from, const Worker& to, double bytes,
                                               Activity ready) {
  const double seconds = sending_seconds(from, to, bytes);
  if (seconds <= 0) return FluidEngine::kNone;
  const Activity sending = compute(from, seconds);
  engine().order(ready, sending);
  return sending;
}

/// Adds the exchange of the tied embedding, which the first and the last stage both hold: each sends the
/// other its sum over the replicas as soon as it has it; its share of that, where replicas share gradients.
void StepBuilder::add_tied_embedding(Worker& first, Worker& last) {
  const double bytes = static_cast<double>(model_.token_embedding_parameters()) * plan_.job.gradient_bytes() /
                       (exchanges_in_passes() ? plan_.data_size() : 1);
  for (const auto& [from, to] : {std::pair(&first, &last), std::pair(&last, &first)}) {
    const TransferActivities flow = Way(*this, *from, *to).add(bytes);
    const Activity arrival = engine().add_delay(latency(*from, *to));
    engine().order(from->embedding_ready, flow.first);
    engine().order(flow.last, arrival);
    bar(Bar::Kind::kSend, *from, -1, flow.first, arrival);
    from->reduced.push_back(flow.last);
    if (const Activity sending = add_sending(*from, *to, bytes, from->embedding_ready);
        sending != FluidEngine::kNone)
      from->reduced.push_back(sending);
    to->reduced.push_back(arrival);
  }
}

/// What each rank gathers of these layers, as the all-reduce that sends twice as much.
double StepBuilder::gathered_bytes(const Gather& gather, int first_layer, int last_layer) const {
  return 0.5 * parameters_between(*gather.members->owners.front(), first_layer, last_layer, gather.share) *
         model_.bytes_per_value;
}

/// Adds a gather of parameters that were updated at the end of the step before. The first layer's must be
/// there before the first micro-batch comes, the others' before it leaves.
void StepBuilder::add_gather_beside_forward(const Gather& gather) {
  const Reduction& reduction = reduction_of(*gather.members);
  const double rounds = 0.5 * reduction.all_reduce.rounds;
  const auto for_each_chunk = [&](auto act) {
    for (Worker* worker : gather.members->acting)
      for (std::size_t chunk = 0; chunk < worker->chunks.size(); ++chunk) {
        const Stage& stage = stage_of(*worker, static_cast<int>(chunk));
        if (gather.last_layer >= stage.first_layer && gather.first_layer < stage.first_layer + stage.layers)
          act(worker->chunks[chunk], stage);
      }
  };
  const Activity first =
      add_phases(*gather.members, reduction, gathered_bytes(gather, gather.first_layer, gather.first_layer),
                 rounds, engine().add_delay(0));
  Activity all = first;
  if (gather.last_layer > gather.first_layer)
    all = add_phases(*gather.members, reduction,
                     gathered_bytes(gather, gather.first_layer + 1, gather.last_layer), rounds, first);
  for_each_chunk([&](Worker::Chunk& chunk, const Stage& stage) {
    if (stage.first_layer == gather.first_layer) engine().order(first, chunk.forward_first.front());
    engine().order(all, chunk.first_forward_over);
  });
}

/// The same by the engine: the trainer sums these few values over the replicas of each stage, and then over
/// the stages of each replica.
double StepBuilder::engine_norm_seconds() const {
  constexpr std::size_t kOverReplicas = 4, kOverStages = 5;  // values
  const auto seconds = [this](const std::vector<int>& hosts, std::size_t values) {
    return hosts.size() < 2 ? 0
                            : EngineModel(view_, hosts)
                                  .all_reduce(static_cast<double>(values * sizeof(double)), sizeof(double))
                                  .seconds;
  };
  std::map<int, std::vector<int>> by_slot;
  double over_replicas = 0, over_stages = 0;
  for (const auto& pipeline : workers_) {
    std::vector<int> hosts;
    for (const Worker& worker : pipeline) {
      hosts.push_back(worker.host);
      by_slot[worker.slot].push_back(worker.host);
    }
    over_stages = std::max(over_stages, seconds(hosts, kOverStages));
  }
  for (const auto& [slot, hosts] : by_slot)
    over_replicas = std::max(over_replicas, seconds(hosts, kOverReplicas));
  return over_replicas + over_stages;
}

/// The seconds that the global gradient norm takes once all gradients are there. Small vectors are reduced by
/// recursive doubling, over the replicas and then over the stages: a round halves the number of those that
/// have yet to meet. Of these rounds as many cross to other clusters as it takes these to meet, once the
/// members of each have; the others stay inside them.
double StepBuilder::norm_seconds() {
  if (engine_reduces()) return engine_norm_seconds();
  std::size_t stages = 0;
  std::set<int> clusters;
  for (const auto& pipeline : workers_) {
    stages = std::max(stages, pipeline.size());
    for (const Worker& worker : pipeline) clusters.insert(cluster_number(worker.host));
  }
  const auto rounds_of = [](std::size_t members) { return std::ceil(std::log2(members)); };
  const double rounds = rounds_of(at(plan_.data_size())) + rounds_of(stages),
               crossing = std::min(rounds, rounds_of(clusters.size()));
  const Latencies& longest = network_.longest_latencies();
  return crossing * longest.all + (rounds - crossing) * longest.in_clusters;
}

/// Adds the optimizer. Every rank waits for the global gradient norm, and so for all others. With a sharded
/// optimizer each rank then gathers the parameters that the others have updated, unless it does so beside the
/// next step's forward pass; in a prediction of one step that is this one's.
void StepBuilder::add_optimizer() {
  const Activity norm = engine().add_delay(norm_seconds());
  std::map<const Worker*, Activity> updated;
  for (auto& pipeline : workers_) {
    for (Worker& worker : pipeline) {
      if (!acts(worker)) continue;
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
    if (gathers_beside_forward()) {
      add_gather_beside_forward(gather);
      continue;
    }
    const Activity begin = engine().add_delay(0);
    for (const Worker* worker : gather.members->acting) engine().order(updated[worker], begin);
    const Reduction& reduction = reduction_of(*gather.members);
    add_phases(*gather.members, reduction, gathered_bytes(gather, gather.first_layer, gather.last_layer),
               0.5 * reduction.all_reduce.rounds, begin);
  }
}

int StepBuilder::cluster_number(int host) {
  return cluster_numbers_.try_emplace(view_.host(host).cluster, static_cast<int>(cluster_numbers_.size()))
      .first->second;
}

}  // namespace tombolo::planner
