#include "planner/simulate/step_graph.h"

#include <algorithm>

#include "base/error.h"
#include "planner/model/index.h"
#include "planner/simulate/step_builder.h"

namespace tombolo::planner {

double seconds_of(Operation::Kind kind, const PassSeconds& pass) noexcept {
  switch (kind) {
    case Operation::Kind::kForward:
      return pass.forward;
    case Operation::Kind::kBackward:
      return pass.backward();
    case Operation::Kind::kBackwardInput:
      return pass.backward_input;
    case Operation::Kind::kBackwardWeights:
      break;
  }
  return pass.backward_weights;
}

Bar::Kind bar_kind(Operation::Kind kind) noexcept {
  switch (kind) {
    case Operation::Kind::kForward:
      return Bar::Kind::kForward;
    case Operation::Kind::kBackward:
    case Operation::Kind::kBackwardInput:
      return Bar::Kind::kBackward;
    case Operation::Kind::kBackwardWeights:
      break;
  }
  return Bar::Kind::kBackwardWeights;
}

StepBuilder::StepBuilder(const Plan& plan, const ClusterView& view, std::uint64_t bucket_bytes, int replicas,
                         StepGraph memory)
    : plan_(plan),
      model_(plan.job.model),
      view_(view),
      bucket_bytes_(static_cast<double>(bucket_bytes)),
      exchange_(replica_exchange(plan.job.framework, plan.job.sharding, plan.pipeline_size())),
      layer_ready_(plan.pipelines.size(), std::vector<Activity>(at(model_.layers), FluidEngine::kNone)),
      graph_(std::move(memory)) {
  const bool alike =
      std::ranges::all_of(plan.pipelines, [&](const Pipeline& one) { return one == plan.pipelines.front(); });
  if (const std::string why = plan.job.expert_misfit(plan.data_size());
      !why.empty() || (plan.job.expert_parts() > 1 && !alike))
    fail(Cause::kInvalidUsage, "the plan cannot divide experts: {}",
         why.empty() ? "its replicas differ in stages or rows; make them equal" : why);
  if (exchanges_in_passes() && !alike)
    fail(
        Cause::kInvalidUsage,
        "the plan shares {} among replicas that differ in stages or rows, and so have no passes in common to "
        "exchange them in; make the replicas equal",
        sharding_name(plan.job.sharding));
  if (view.cluster().shared_processor)
    processor_ = engine().add_resource(view.cluster().shared_processor->cores);
  const auto slots = plan.ranks_by_slot();
  for (int replica = 0; replica < replicas; ++replica) {
    workers_.emplace_back();
    for (int slot = 0; slot < plan.pipeline_size(replica); ++slot) {
      const std::vector<int>& ranks = slots[at(replica)][at(slot)];
      Worker& worker = workers_.back().emplace_back();
      worker.rank = ranks.front();
      worker.replica = replica;
      worker.slot = slot;
      worker.slots = plan.pipeline_size(replica);
      worker.host = view.host_index(plan.ranks[at(worker.rank)].host);
      worker.costs = slot_costs(plan, view, ranks);
      crowded_ = crowded_ || (worker.costs.crowded > 0 && lacks_memory(worker));
    }
  }
}

StepGraph StepBuilder::build(AlikeReplicas alike) {
  explains_ = alike == AlikeReplicas::kEach;
  if (!explains_) find_alike();
  add_pipelines();
  if (exchanges_in_passes())
    add_sharded_exchanges();
  else
    add_reductions();
  if (model_.tied_embeddings)
    for (auto& pipeline : workers_)
      if (pipeline.size() > 1 && acts(pipeline.front()))
        add_tied_embedding(pipeline.front(), pipeline.back());
  add_optimizer();
  if (graph_.copies.empty()) graph_.flows = network_.flows();
  return std::move(graph_);
}

/// Adds what every replica does by itself.
void StepBuilder::add_pipelines() {
  std::size_t passes = 0, transfers = 0;
  for (std::size_t replica = 0; replica < workers_.size(); ++replica) {
    if (!acts(workers_[replica].front())) continue;
    const Pipeline& pipeline = plan_.pipelines[replica];
    const std::size_t count = 2 * at(pipeline.micro_batches());
    passes += count * pipeline.stages.size();
    transfers += count * (pipeline.stages.size() - 1);
  }
  // A transfer is its bytes and its latency, after its pass and the transfer before, and before a pass.
  // What is left over is for what replicas exchange; memory that is not used costs nothing.
  engine().reserve(3 * (passes + 2 * transfers) / 2, 3 * (passes + 4 * transfers) / 2);
  for (auto& pipeline : workers_)
    for (Worker& worker : pipeline)
      if (acts(worker)) add_compute(worker);
  for (int replica = 0; at(replica) < workers_.size(); ++replica)
    for (int stage = 0; acts(workers_[at(replica)].front()) && at(stage) + 1 < plan_.stages(replica).size();
         ++stage)
      add_border(replica, stage);
}

double StepBuilder::least_seconds() {
  add_pipelines();
  add_optimizer();
  return engine().least_finish();
}

StepGraph build_step(const Plan& plan, const ClusterView& view, std::uint64_t bucket_bytes, StepGraph memory,
                     AlikeReplicas alike) {
  memory.engine.clear();
  memory.bars.clear();
  memory.flows.clear();
  memory.reductions.clear();
  memory.copies.clear();
  return StepBuilder(plan, view, bucket_bytes, plan.data_size(), std::move(memory)).build(alike);
}

double least_step_seconds(const Plan& plan, const ClusterView& view) {
  return StepBuilder(plan, view, 1, 1, {}).least_seconds();
}

}  // namespace tombolo::planner
