// Which replicas of a step are alike, and so are in its graph once.
#include "planner/model/index.h"
#include "planner/simulate/step_builder.h"

namespace tombolo::planner {

namespace {

void add(Colour& colour, const PassSeconds& pass) {
  colour.add(pass.forward).add(pass.backward_input).add(pass.backward_weights);
}

void add(Colour& colour, const SlotExchange& exchange) {
  colour.add(exchange.inside_seconds).add(exchange.wait_seconds);
  for (const SlotExchange::Crossing& one : exchange.crossings)
    colour.add(one.bytes).add(one.from_ranks).add(one.to_ranks);
}

void add(Colour& colour, const SlotCosts& costs) {
  add(colour, costs.layer);
  for (const PassSeconds& layer : costs.layers) add(colour, layer);
  add(colour, costs.embedding);
  add(colour, costs.head);
  add(colour, costs.expert_exchange);
  add(colour, costs.context.once);
  for (const auto* rounds : {&costs.context.forward, &costs.context.backward})
    for (const ContextRound& one : *rounds) colour.add(one.times).add(one.waits).add(one.beside);
  colour.add(costs.optimizer).add(costs.expert_exchange_seconds).add(costs.crowded);
}

}  // namespace

StepBuilder::Way::Way(StepBuilder& builder, const Worker& from, const Worker& to)
    : network_(builder.network_), route_(builder.end(from), builder.end(to)) {
  if (builder.graph_.copies.empty()) return;
  const int noted = builder.noted_transfers_.at({from.replica, from.slot, to.slot});
  for_all_ = &builder.alike_.for_all(noted);
}

/// Finds the replicas that are alike, unless something is shared in a way for which alike is not enough:
/// token buckets, and processors, which send beside computing.
void StepBuilder::find_alike() {
  const Profile* profile = plan_.job.profile.get();
  if (workers_.size() < 2 || processor_ != FluidEngine::kNone ||
      (profile != nullptr && profile->sending_seconds_per_byte > 0))
    return;
  for (int replica = 0; at(replica) < workers_.size(); ++replica) alike_.add_replica(colour_of(replica));
  for (int replica = 0; at(replica) < workers_.size(); ++replica) note_borders(replica);
  note_exchanges(GroupKind::kExperts, plan_.job.expert_parts());
  note_exchanges(GroupKind::kContext, plan_.job.context_parallel);
  note_members();
  if (!engine().has_bursts() && alike_.find(engine())) graph_.copies = alike_.copies();
  for (auto& [owners, members] : members_)
    std::erase_if(members.acting, [this](const Worker* worker) { return !acts(*worker); });
}

/// What a replica is by itself.
Colour StepBuilder::colour_of(int replica) const {
  const Pipeline& pipeline = plan_.pipelines[at(replica)];
  Colour colour;
  colour.add(pipeline.rows).add(pipeline.micro_batch);
  for (const Stage& stage : pipeline.stages)
    colour.add(stage.first_layer).add(stage.layers).add(stage.tensor);
  for (const Worker& worker : workers_[at(replica)]) add(colour, worker.costs);
  // Each part of the experts is reduced by itself.
  return colour.add(replica % plan_.job.expert_parts());
}

/// Notes the transfers from one slot of a replica to another: all of them, since they follow from what the
/// replica does.
void StepBuilder::note_transfer(const Worker& from, const Worker& to) {
  const auto [entry, added] = noted_transfers_.try_emplace({from.replica, from.slot, to.slot}, kNone);
  if (!added) return;
  Colour role;
  role.add(from.slot).add(to.slot).add(latency(from, to));
  role.add(view_.path(to.host, to.host).bytes_per_second);  // at which what came in parts is gathered
  entry->second = alike_.add_transfer(role, from.replica);
  network_.add_parts(end(from), end(to), alike_);
}

void StepBuilder::note_borders(int replica) {
  const std::vector<Worker>& workers = workers_[at(replica)];
  const std::size_t stages = plan_.stages(replica).size();
  for (std::size_t stage = 0; stage + 1 < std::min(stages, workers.size() + 1); ++stage) {
    const Worker &before = workers[stage], &after = workers[(stage + 1) % workers.size()];
    note_transfer(before, after);
    note_transfer(after, before);
  }
  if (!model_.tied_embeddings || workers.size() < 2) return;
  note_transfer(workers.front(), workers.back());
  note_transfer(workers.back(), workers.front());
}

/// Notes what groups of so many replicas exchange in the middle of passes, where they are on several hosts.
void StepBuilder::note_exchanges(GroupKind kind, int parts) {
  if (parts < 2) return;
  for (int first = 0; at(first) < workers_.size(); first += parts) {
    bool crosses = false;
    for (const Worker& worker : workers_[at(first)]) {
      const SlotExchange& exchange = exchange_of(worker, kind);
      if (!exchange.crosses()) continue;
      crosses = true;
      for (std::size_t i = 0; i < exchange.crossings.size(); ++i) {
        Colour role;
        role.add(kind == GroupKind::kContext ? 1 : 2).add(worker.slot).add(exchange.crossings[i].bytes);
        const int noted = alike_.add_transfer(role.add(i), first);
        noted_exchanges_.try_emplace({kind, first / parts, worker.slot}, noted);
        network_.add_parts(from_end(exchange.crossings[i]), to_end(exchange.crossings[i]), alike_);
      }
    }
    if (!crosses) continue;
    std::vector<int> team;
    for (int replica = first; replica < first + parts && at(replica) < workers_.size(); ++replica)
      team.push_back(replica);
    alike_.add_team(std::move(team));
  }
}

/// Notes the transfers of what replicas reduce and gather.
void StepBuilder::note_members() {
  std::vector<Range> all;
  if (exchanges_in_passes()) {
    for (std::size_t slot = 0; slot < workers_.front().size(); ++slot) {
      Range& range = all.emplace_back();
      for (auto& pipeline : workers_) range.owners.push_back(&pipeline[slot]);
    }
  } else {
    all = ranges();
  }
  for (const Range& range : all) {
    note_members(range);
    for (std::vector<Worker*>& some : with_same_experts(range.owners)) note_members({std::move(some), 0, 0});
  }
}

void StepBuilder::note_members(const Range& range) {
  Members& members = members_of(range.owners);
  if (!members.engine) return note_reduction(members, reduction_of(members, kAnySize));
  for (const Bucket& bucket : buckets_of(range.owners, range.first_layer, range.last_layer, Share::kOthers))
    note_reduction(members, reduction_of(members, bucket.bytes));
}

void StepBuilder::note_reduction(const Members& members, Reduction& reduction) {
  if (reduction.transfers != kNone) return;
  const auto group = members_.size(), size = members.by_size.size();
  for (const Transfer& transfer : reduction.all_reduce.transfers) {
    Colour role;
    role.add(3).add(group).add(size).add(transfer.fraction);
    const int noted = alike_.add_transfer(role, -1);
    if (reduction.transfers == kNone) reduction.transfers = noted;
    network_.add_parts(members.ends[at(transfer.from)], members.ends[at(transfer.to)], alike_);
  }
}

}  // namespace tombolo::planner
