// What replicas gather and scatter during the passes, where they share gradients or parameters.
#include <algorithm>
#include <cstdlib>

#include "planner/model/index.h"
#include "planner/simulate/step_builder.h"

namespace tombolo::planner {

/// Appends a pass in up to three parts: the layer that it computes last, before that what it computes first,
/// which of a backward pass is one layer, and the rest.
ShardedPass StepBuilder::append_sharded(Worker& worker, const Operation& operation, const Append& append) {
  const Stage& stage = stage_of(worker, operation.chunk);
  const bool last_stage = &stage == &plan_.stages(worker.replica).back();
  const bool forward = operation.kind == Operation::Kind::kForward;
  const int first = stage.first_layer, last = first + stage.layers - 1;
  // Each part has its own bar, since between them the pass may wait.
  const auto add = [&](int from, int to) {
    const auto touches = [&](int layer) { return from == layer || to == layer; };
    const double embedding = touches(0) ? seconds_of(operation.kind, worker.costs.embedding) : 0;
    const double head =
        last_stage && touches(model_.layers - 1) ? seconds_of(operation.kind, worker.costs.head) : 0;
    const Activities part = append_layers(
        worker, operation, from, to, forward ? Beside{embedding, head} : Beside{head, embedding}, append);
    const Stage layers{std::min(from, to), std::abs(to - from) + 1};
    pass_bar(worker, operation, from, to,
             embedding + seconds_of(operation.kind, worker.costs.stage(layers, false, false)) + head, part);
    return part.second;
  };
  ShardedPass pass{operation};
  pass.begin = append(0);
  if (stage.layers > 1) {
    pass.opening = forward ? add(first, last - 1) : add(last, last);
    if (!forward && stage.layers > 2) add(last - 1, first + 1);
  }
  pass.before_closing = worker.last;
  pass.closing = forward ? add(last, last) : add(first, first);
  return pass;
}

void StepBuilder::add_sharded_exchanges() {
  const int slots = static_cast<int>(workers_.front().size());
  for (int slot = 0; slot < slots; ++slot) {
    std::vector<Worker*> owners;
    for (auto& pipeline : workers_) owners.push_back(&pipeline[at(slot)]);
    add_sharded_exchanges(members_of(owners), Share::kOthers);
    for (const std::vector<Worker*>& some : with_same_experts(owners))
      add_sharded_exchanges(members_of(some), Share::kExperts);
  }
}

void StepBuilder::add_sharded_exchanges(const Members& members, Share share) {
  if (exchange_.gather != ParameterGather::kEachStep) add_gathers_in_passes(members, share);
  add_scatters_in_passes(members, share);
  if (exchange_.gather == ParameterGather::kEachStep)
    for (int chunk = 0; chunk < plan_.job.chunks; ++chunk) {
      const Stage& stage = stage_of(*members.owners.front(), chunk);
      gathers_.push_back({&members, stage.first_layer, stage.first_layer + stage.layers - 1, share});
    }
}

/// The parameters of these layers' experts, or of all else in them, with the embedding before the first and
/// the head after the last.
double StepBuilder::parameters_between(const Worker& worker, int first_layer, int last_layer,
                                       Share share) const {
  if (last_layer < first_layer) return 0;
  const int layers = last_layer - first_layer + 1;
  const auto experts = static_cast<double>(plan_.job.expert_parameters(first_layer, layers));
  if (share == Share::kExperts) return experts;
  double parameters = static_cast<double>(plan_.job.layer_parameters(first_layer, layers)) - experts;
  if (last_layer == model_.layers - 1) parameters += head_parameters(worker);
  if (first_layer == 0) parameters += static_cast<double>(plan_.job.embedding_parameters());
  return parameters;
}

FluidEngine::Activity StepBuilder::after_all(const Members& members, std::size_t pass,
                                             Activity ShardedPass::*part) {
  const Activity all = engine().add_delay(0);
  for (const Worker* worker : members.acting)
    if (const Activity one = worker->passes[pass].*part; one != FluidEngine::kNone) engine().order(one, all);
  return all;
}

/// Adds the gathers of a slot's parameters. While one layer computes the next is gathered, and then nothing
/// more is until that layer is over, so that at most two are whole at any time: the first layer of a pass is
/// gathered beside the last of the pass before.
void StepBuilder::add_gathers_in_passes(const Members& members, Share share) {
  const Worker& one = *members.owners.front();
  const Reduction& reduction = reduction_of(members);
  const auto gather = [&](int first, int last, Activity begin) {
    const int layers = layers_with(share, first, last);
    if (layers == 0) return begin;
    const double bytes = 0.5 * model_.bytes_per_value * parameters_between(one, first, last, share);
    return add_phases(members, reduction, bytes, 0.5 * reduction.all_reduce.rounds * layers, begin);
  };
  Activity gathered = FluidEngine::kNone;
  for (std::size_t i = 0; i < one.passes.size(); ++i) {
    const Operation& operation = one.passes[i].operation;
    const bool forward = operation.kind == Operation::Kind::kForward;
    if (operation.kind == Operation::Kind::kBackwardWeights) continue;  // it needs no parameters
    if (!forward && exchange_.gather == ParameterGather::kEachForward) continue;
    const Stage& stage = stage_of(one, operation.chunk);
    const int first = stage.first_layer, last = first + stage.layers - 1;
    // A backward pass that follows its own forward pass finds the last layer where that left it.
    const bool kept = !forward && i > 0 && one.passes[i - 1].operation.kind == Operation::Kind::kForward &&
                      one.passes[i - 1].operation.chunk == operation.chunk &&
                      one.passes[i - 1].operation.micro_batch == operation.micro_batch;
    const int opening = forward ? first : last;
    Activity begin = i > 0 ? after_all(members, i - 1, &ShardedPass::before_closing) : engine().add_delay(0);
    if (gathered != FluidEngine::kNone) engine().order(gathered, begin);
    gathered = kept ? begin : gather(opening, opening, begin);
    for (const Worker* worker : members.acting) engine().order(gathered, worker->passes[i].begin);
    if (stage.layers == 1) continue;
    begin = after_all(members, i, &ShardedPass::begin);
    gathered = forward ? gather(first + 1, last, begin) : gather(first, last - 1, begin);
    for (const Worker* worker : members.acting) engine().order(gathered, worker->passes[i].closing);
  }
}

/// Adds the reductions of a slot's gradients, a layer's beside the backward pass of those before it. At most
/// one layer's gradients wait for theirs while another's are computed.
void StepBuilder::add_scatters_in_passes(const Members& members, Share share) {
  const Worker& one = *members.owners.front();
  const Reduction& reduction = reduction_of(members);
  const double value = 0.5 * plan_.job.gradient_bytes(), rounds = 0.5 * reduction.all_reduce.rounds;
  Activity reduced = FluidEngine::kNone;
  // What the next pass waits for.
  Activity pending = FluidEngine::kNone;
  const auto reduce = [&](int first, int last, Activity begin) {
    if (reduced != FluidEngine::kNone) engine().order(reduced, begin);
    const int layers = layers_with(share, first, last);
    reduced = layers == 0
                  ? begin
                  : add_phases(members, reduction, value * parameters_between(one, first, last, share),
                               layers * rounds, begin);
  };
  for (std::size_t i = 0; i < one.passes.size(); ++i) {
    const Operation& operation = one.passes[i].operation;
    if (pending != FluidEngine::kNone)
      for (const Worker* worker : members.acting) engine().order(pending, worker->passes[i].begin);
    pending = FluidEngine::kNone;
    if (operation.kind == Operation::Kind::kForward || operation.kind == Operation::Kind::kBackwardInput)
      continue;
    const Stage& stage = stage_of(one, operation.chunk);
    const int first = stage.first_layer, last = first + stage.layers - 1;
    if (reduced != FluidEngine::kNone)
      for (const Worker* worker : members.acting) engine().order(reduced, worker->passes[i].closing);
    if (!plan_.job.overlap_gradients) {
      reduce(first, last, after_all(members, i, &ShardedPass::closing));
      pending = reduced;
      continue;
    }
    if (stage.layers > 1) {
      reduce(first + 1, last, after_all(members, i, &ShardedPass::opening));
      pending = reduced;
    }
    reduce(first, first, after_all(members, i, &ShardedPass::closing));
  }
  for (Worker* worker : members.acting) {
    worker->reduced.push_back(reduced);
    if (share == Share::kOthers) worker->embedding_ready = reduced;
  }
}

}  // namespace tombolo::planner
