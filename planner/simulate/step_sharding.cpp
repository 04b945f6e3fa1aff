// What replicas gather and scatter during the passes, where they share gradients or parameters.
#include <algorithm>

#include "planner/model/index.h"
#include "planner/simulate/step_builder.h"

namespace tombolo::planner {

/// Appends a pass in up to three parts: the layer that it computes last, before that what it computes first,
/// which of a backward pass is one layer, and the rest.
ShardedPass StepBuilder::append_sharded(Worker& worker, const Operation& operation,
                                        const std::function<Activity(double)>& append) {
  const Stage& stage = stage_of(worker, operation.chunk);
  const bool last_stage = &stage == &plan_.stages(worker.replica).back();
  const bool forward = operation.kind == Operation::Kind::kForward;
  const auto of = [&](const PassSeconds& pass) {
    switch (operation.kind) {
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
  };
  const auto layer = [&](int index) {
    double seconds = of(worker.costs.of_layer(index));
    if (index == 0) seconds += of(worker.costs.embedding);
    if (last_stage && index == model_.layers - 1) seconds += of(worker.costs.head);
    return seconds;
  };
  const int first = stage.first_layer, last = first + stage.layers - 1;
  const Bar::Kind kind = forward                                               ? Bar::Kind::kForward
                         : operation.kind == Operation::Kind::kBackwardWeights ? Bar::Kind::kBackwardWeights
                                                                               : Bar::Kind::kBackward;
  // Each part has its own bar, since between them the pass may wait.
  const auto add = [&](double seconds) {
    const Activity part = append(seconds);
    bar(kind, worker, operation.micro_batch, part, part);
    return part;
  };
  ShardedPass pass{operation};
  pass.begin = append(0);
  double middle = 0;
  for (int index = first + 1; index < last; ++index) middle += layer(index);
  if (stage.layers > 1) {
    pass.opening = add(forward ? layer(first) + middle : layer(last));
    if (!forward && stage.layers > 2) add(middle);
  }
  pass.before_closing = worker.last;
  pass.closing = add(layer(forward ? last : first));
  return pass;
}

void StepBuilder::add_sharded_exchanges() {
  const int slots = static_cast<int>(workers_.front().size());
  for (int slot = 0; slot < slots; ++slot) {
    Members members;
    std::vector<MemberLocation> locations;
    for (auto& pipeline : workers_) {
      members.owners.push_back(&pipeline[at(slot)]);
      locations.push_back({cluster_number(pipeline[at(slot)].host), pipeline[at(slot)].host});
    }
    members.all_reduce = all_reduce_of(locations, view_.routing(), traits(plan_.job.framework).nics);
    members.ends = ends_of(members.owners, members.all_reduce);
    if (exchange_.gather != ParameterGather::kEachStep) add_gathers_in_passes(members);
    add_scatters_in_passes(members);
    if (exchange_.gather == ParameterGather::kEachStep)
      for (int chunk = 0; chunk < plan_.job.chunks; ++chunk) {
        const Stage& stage = stage_of(*members.owners.front(), chunk);
        gathers_.push_back({members, stage.first_layer, stage.first_layer + stage.layers - 1});
      }
  }
}

/// The parameters of these layers, with the embedding before the first and the head after the last.
double StepBuilder::parameters_between(const Worker& worker, int first_layer, int last_layer) const {
  if (last_layer < first_layer) return 0;
  double parameters =
      static_cast<double>(plan_.job.layer_parameters(first_layer, last_layer - first_layer + 1));
  if (last_layer == model_.layers - 1) parameters += head_parameters(worker);
  if (first_layer == 0) parameters += static_cast<double>(plan_.job.embedding_parameters());
  return parameters;
}

FluidEngine::Activity StepBuilder::after_all(const Members& members, std::size_t pass,
                                             Activity ShardedPass::*part) {
  const Activity all = engine().add_delay(0);
  for (const Worker* worker : members.owners)
    if (const Activity one = worker->passes[pass].*part; one != FluidEngine::kNone) engine().order(one, all);
  return all;
}

/// Adds the gathers of a slot's parameters. While one layer computes the next is gathered, and then nothing
/// more is until that layer is over, so that at most two are whole at any time: the first layer of a pass is
/// gathered beside the last of the pass before.
void StepBuilder::add_gathers_in_passes(const Members& members) {
  const Worker& one = *members.owners.front();
  const double value = 0.5 * model_.bytes_per_value, rounds = 0.5 * members.all_reduce.rounds;
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
    gathered =
        kept ? begin : add_phases(members, value * parameters_between(one, opening, opening), rounds, begin);
    for (const Worker* worker : members.owners) engine().order(gathered, worker->passes[i].begin);
    if (stage.layers == 1) continue;
    begin = after_all(members, i, &ShardedPass::begin);
    const double rest =
        forward ? parameters_between(one, first + 1, last) : parameters_between(one, first, last - 1);
    gathered = add_phases(members, value * rest, (stage.layers - 1) * rounds, begin);
    for (const Worker* worker : members.owners) engine().order(gathered, worker->passes[i].closing);
  }
}

/// Adds the reductions of a slot's gradients, a layer's beside the backward pass of those before it. At most
/// one layer's gradients wait for theirs while another's are computed.
void StepBuilder::add_scatters_in_passes(const Members& members) {
  const Worker& one = *members.owners.front();
  const double value = 0.5 * plan_.job.gradient_bytes(), rounds = 0.5 * members.all_reduce.rounds;
  Activity reduced = FluidEngine::kNone;
  // What the next pass waits for.
  Activity pending = FluidEngine::kNone;
  const auto reduce = [&](int first, int last, Activity begin) {
    if (reduced != FluidEngine::kNone) engine().order(reduced, begin);
    reduced =
        add_phases(members, value * parameters_between(one, first, last), (last - first + 1) * rounds, begin);
  };
  for (std::size_t i = 0; i < one.passes.size(); ++i) {
    const Operation& operation = one.passes[i].operation;
    if (pending != FluidEngine::kNone)
      for (const Worker* worker : members.owners) engine().order(pending, worker->passes[i].begin);
    pending = FluidEngine::kNone;
    if (operation.kind == Operation::Kind::kForward || operation.kind == Operation::Kind::kBackwardInput)
      continue;
    const Stage& stage = stage_of(one, operation.chunk);
    const int first = stage.first_layer, last = first + stage.layers - 1;
    if (reduced != FluidEngine::kNone)
      for (const Worker* worker : members.owners) engine().order(reduced, worker->passes[i].closing);
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
  for (Worker* worker : members.owners) {
    worker->reduced.push_back(reduced);
    worker->embedding_ready = reduced;
  }
}

}  // namespace tombolo::planner
