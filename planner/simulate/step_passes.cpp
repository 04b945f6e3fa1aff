// What each rank computes in a step, and what it passes to the neighbouring stages.
#include <algorithm>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "planner/cost/border.h"
#include "planner/cost/memory.h"
#include "planner/cost/reserve.h"
#include "planner/model/index.h"
#include "planner/simulate/step_builder.h"

namespace tombolo::planner {

void StepBuilder::add_compute(Worker& worker) {
  const Pipeline& pipeline = plan_.pipelines[at(worker.replica)];
  const int count = pipeline.micro_batches();
  worker.chunks.resize(at(plan_.job.chunks));
  for (Worker::Chunk& chunk : worker.chunks) {
    chunk.forward_first.resize(at(count));
    chunk.forward_last.resize(at(count));
    chunk.backward_first.resize(at(count));
    chunk.backward_last.resize(at(count));
    if (!plan_.job.blocks_sends()) continue;
    for (auto* turns :
         {&chunk.before_forward, &chunk.after_forward, &chunk.before_backward, &chunk.after_backward})
      turns->assign(at(count), FluidEngine::kNone);
  }
  const auto operations =
      operations_of(plan_.job.schedule, worker.slot, worker.slots, count, plan_.job.chunks);
  // A chunk's gradients become final in the last operation that adds to them.
  std::vector<int> left(worker.chunks.size(), count);
  // The last activity of the operation before, and the activity that the next one must follow.
  Activity ended = FluidEngine::kNone, &previous = worker.last;
  const auto append = [&](double seconds) {
    const Activity added = compute(worker, seconds);
    if (previous != FluidEngine::kNone) engine().order(previous, added);
    return previous = added;
  };
  // Where sends block: the place for the first activity of the operation after the one before.
  Activity* next_of_previous = nullptr;
  const auto note_turn = [&](std::vector<Activity>& before, std::vector<Activity>& after, int i,
                             Activity first) {
    if (!plan_.job.blocks_sends()) return;
    before[at(i)] = ended;
    if (next_of_previous != nullptr) *next_of_previous = first;
    next_of_previous = &after[at(i)];
  };
  for (const Operation& operation : operations) {
    const int i = operation.micro_batch;
    Worker::Chunk& chunk = worker.chunks[at(operation.chunk)];
    if (exchanges_in_passes()) worker.passes.push_back(append_sharded(worker, operation, append));
    if (operation.kind == Operation::Kind::kForward) {
      if (exchanges_in_passes()) {
        chunk.forward_first[at(i)] = worker.passes.back().begin;
        chunk.forward_last[at(i)] = worker.passes.back().closing;
      } else {
        std::tie(chunk.forward_first[at(i)], chunk.forward_last[at(i)]) =
            append_pass(worker, operation, append);
      }
      note_turn(chunk.before_forward, chunk.after_forward, i, chunk.forward_first[at(i)]);
      ended = chunk.forward_last[at(i)];
      if (i == 0 && gathers_beside_forward()) {
        chunk.first_forward_over = engine().add_delay(0);
        engine().order(ended, chunk.first_forward_over);
        previous = chunk.first_forward_over;
      }
      if (const double sending = sending_seconds(worker, operation.chunk, +1); sending > 0) append(sending);
      continue;
    }
    const bool completes =
        operation.kind != Operation::Kind::kBackwardInput && --left[at(operation.chunk)] == 0;
    const auto [first, last] = exchanges_in_passes()
                                   ? Activities(worker.passes.back().begin, worker.passes.back().closing)
                               : completes ? append_last(worker, operation, append)
                                           : append_pass(worker, operation, append);
    if (operation.kind == Operation::Kind::kBackwardWeights) {
      if (next_of_previous != nullptr) *std::exchange(next_of_previous, nullptr) = first;
      ended = last;
      continue;
    }
    note_turn(chunk.before_backward, chunk.after_backward, i, first);
    ended = last;
    chunk.backward_first[at(i)] = first;
    chunk.backward_last[at(i)] = last;
    if (const double sending = sending_seconds(worker, operation.chunk, -1); sending > 0) append(sending);
  }
  worker.reduced.push_back(previous);
}

/// Appends the layers `from` to `to`, which a backward pass takes in descending order, and what is computed
/// beside them. Where replicas that divide experts or tokens are on several hosts, exchanges are activities.
auto StepBuilder::append_layers(Worker& worker, const Operation& operation, int from, int to,
                                const Beside& beside, const Append& append) -> Activities {
  if (crosses_in_layers(worker, operation))
    return append_with_exchanges(worker, operation, from, to, beside, append);
  const Stage layers{std::min(from, to), std::abs(to - from) + 1};
  const double seconds = seconds_of(operation.kind, worker.costs.stage(layers, false, false));
  const Activity all = append(beside.before + seconds + beside.after);
  return {all, all};
}

/// The bar of a pass, or of a part of one, of so many seconds. Exchanges that are activities have theirs.
void StepBuilder::pass_bar(const Worker& worker, const Operation& operation, int from, int to, double seconds,
                           const Activities& activities) {
  if (crosses_in_layers(worker, operation)) return;
  Bar one{bar_kind(operation.kind), worker.rank, operation.micro_batch, activities.first, activities.second};
  if (worker.costs.expert_exchange_seconds > 0 && operation.kind != Operation::Kind::kBackwardWeights &&
      seconds > 0) {
    one.exchanges = model_.mixtures(std::min(from, to), std::abs(to - from) + 1);
    one.exchanged = one.exchanges * worker.costs.expert_exchange_seconds / seconds *
                    expert_exchanges(plan_.job.recompute, operation.kind == Operation::Kind::kForward);
  }
  graph_.bars.push_back(one);
}

/// Appends a pass of all layers of a chunk.
auto StepBuilder::append_pass(Worker& worker, const Operation& operation, const Append& append)
    -> Activities {
  const Stage& stage = stage_of(worker, operation.chunk);
  const int first = stage.first_layer, last = first + stage.layers - 1;
  const bool last_stage = &stage == &plan_.stages(worker.replica).back();
  const double embedding = first == 0 ? seconds_of(operation.kind, worker.costs.embedding) : 0;
  const double head = last_stage ? seconds_of(operation.kind, worker.costs.head) : 0;
  const double crowded = crowded_seconds(worker, operation);
  if (stage.layers == 0) {
    const Activity all = append(crowded + embedding + head);
    bar(bar_kind(operation.kind), worker, operation.micro_batch, all, all);
    return {all, all};
  }
  const bool forward = operation.kind == Operation::Kind::kForward;
  const int from = forward ? first : last, to = forward ? last : first;
  Beside beside = forward ? Beside{embedding, head} : Beside{head, embedding};
  beside.before += crowded;
  const Activities pass = append_layers(worker, operation, from, to, beside, append);
  pass_bar(worker, operation, from, to,
           seconds_of(operation.kind, worker.costs.stage(stage, first == 0, last_stage)), pass);
  return pass;
}

double StepBuilder::sending_seconds(const Worker& from, const Worker& to, double bytes) const {
  const Profile* profile = plan_.job.profile.get();
  return profile == nullptr || from.host == to.host ? 0 : profile->sending_seconds_per_byte * bytes;
}

/// Processor seconds for sending what a chunk passes to the virtual stage after it (`way` 1) or before it
/// (-1).
double StepBuilder::sending_seconds(const Worker& from, int chunk, int way) const {
  const auto& workers = workers_[at(from.replica)];
  const int stage = chunk * from.slots + from.slot, next = stage + way;
  if (next < 0 || at(next) >= plan_.stages(from.replica).size()) return 0;
  return sending_seconds(from, workers[at(next % from.slots)],
                         sent_at_border(plan_, from.replica, std::min(stage, next)));
}

/// Whether a device is full, be it of what its process needs or of what it has not yet given back.
bool StepBuilder::lacks_memory(const Worker& worker) const {
  const topology::Device& device = view_.host(worker.host).devices[at(plan_.ranks[at(worker.rank)].device)];
  return device.memory_bytes > 0 &&
         static_cast<double>(rank_memory(plan_, worker.replica, worker.slot).total +
                             deferred_bytes(plan_, worker.replica, worker.slot)) >
             usable_memory(plan_.job, device);
}

/// What a pass waits for memory for what it gets from another stage.
double StepBuilder::crowded_seconds(const Worker& worker, const Operation& operation) const {
  if (!crowded_) return 0;
  const Stage& stage = stage_of(worker, operation.chunk);
  const auto& stages = plan_.stages(worker.replica);
  const bool receives = operation.kind == Operation::Kind::kForward
                            ? &stage != &stages.front()
                            : operation.kind != Operation::Kind::kBackwardWeights && &stage != &stages.back();
  return receives ? worker.costs.crowded : 0;
}

/// Seconds that the ranks of a slot take to gather what has arrived in parts.
double StepBuilder::gather_seconds(const Worker& to, double bytes) const {
  return border_gather_seconds(plan_.job, bytes, plan_.stage(to.slot, to.replica).tensor,
                               view_.path(to.host, to.host).bytes_per_second);
}

/// Appends the operation that completes a chunk's gradients, layer by layer from the last to the first; the
/// output projection and the final norm are announced together with the first of these, as trainers do.
auto StepBuilder::append_last(Worker& worker, const Operation& operation, const Append& append)
    -> Activities {
  const auto seconds = [&](const PassSeconds& pass) { return seconds_of(operation.kind, pass); };
  const Stage& stage = stage_of(worker, operation.chunk);
  const bool last_stage = &stage == &plan_.stages(worker.replica).back();
  const int from = stage.first_layer + stage.layers - 1, to = stage.first_layer;
  Activity first = FluidEngine::kNone, last = FluidEngine::kNone;
  const double crowded = crowded_seconds(worker, operation);
  if (last_stage || crowded > 0) first = append(crowded + (last_stage ? seconds(worker.costs.head) : 0));
  if (last_stage && crosses_in_layers(worker, operation))
    bar(bar_kind(operation.kind), worker, operation.micro_batch, first, first);
  for (int layer = from; layer >= to; --layer) {
    const Beside beside{0, layer == 0 ? seconds(worker.costs.embedding) : 0};
    const Activities one = append_layers(worker, operation, layer, layer, beside, append);
    last = one.second;
    if (first == FluidEngine::kNone) first = one.first;
    layer_ready_[at(worker.replica)][at(layer)] = last;
  }
  if (stage.layers == 0) {
    last = first == FluidEngine::kNone ? first = append(0) : first;
    bar(bar_kind(operation.kind), worker, operation.micro_batch, first, last);
    if (last_stage) worker.embedding_ready = last;
    return {first, last};
  }
  pass_bar(worker, operation, from, to, seconds(worker.costs.stage(stage, to == 0, last_stage)),
           {first, last});
  // Where nothing is reduced, each copy of the embedding is ready together with the layer next to it.
  if (last_stage) worker.embedding_ready = layer_ready_[at(worker.replica)][at(model_.layers - 1)];
  if (stage.first_layer == 0) worker.embedding_ready = last;
  return {first, last};
}

/// Adds the transfers between virtual stages `stage` and `stage` + 1: activations in one direction, their
/// gradients in the other. Each direction keeps its order, as a connection does.
void StepBuilder::add_border(int replica, int stage) {
  const Pipeline& pipeline = plan_.pipelines[at(replica)];
  auto& workers = workers_[at(replica)];
  const int slots = static_cast<int>(workers.size());
  const Worker &before = workers[at(stage % slots)], &after = workers[at((stage + 1) % slots)];
  const Worker::Chunk &source = before.chunks[at(stage / slots)],
                      &target = after.chunks[at((stage + 1) / slots)];
  const double bytes = sent_at_border(plan_, replica, stage);
  Way forth(*this, before, after), back(*this, after, before);
  const double arrives_forth = latency(before, after) + gather_seconds(after, bytes),
               arrives_back = latency(after, before) + gather_seconds(before, bytes);
  // `next` comes after `produced` in the sender's order, and `waited` before `consumer` in the receiver's.
  const bool blocks = plan_.job.blocks_sends();
  struct Turns {
    Activity next = FluidEngine::kNone, waited = FluidEngine::kNone;
  };
  const auto send = [&](const Worker& from, int i, Activity produced, Activity consumer, const Turns& turns,
                        Activity& previous) -> TransferActivities {
    const bool forward = &from == &before;
    const TransferActivities flow = (forward ? forth : back).add(bytes);
    const Activity arrival = engine().add_delay(forward ? arrives_forth : arrives_back);
    engine().order(produced, flow.first);
    if (previous != FluidEngine::kNone) engine().order(previous, flow.first);
    engine().order(flow.last, arrival);
    engine().order(arrival, consumer);
    // Where sends block, the receiver takes part once it has nothing to compute before this, and the sender
    // goes on when everything is sent.
    if (turns.waited != FluidEngine::kNone) engine().order(turns.waited, flow.first);
    if (turns.next != FluidEngine::kNone) engine().order(flow.last, turns.next);
    bar(Bar::Kind::kSend, from, i, flow.first, arrival);
    previous = flow.last;
    return flow;
  };
  Activity previous_activation = FluidEngine::kNone, previous_gradient = FluidEngine::kNone;
  std::vector<TransferActivities> activations;
  std::map<Activity, TransferActivities> gradient_after;  // by the operation that produced it
  const bool in_turn = blocks && plan_.job.sends == StageSends::kInTurn;
  Turns of_activation, of_gradient;
  for (int i = 0; i < pipeline.micro_batches(); ++i) {
    const bool waits = i == 0 && source.first_forward_over != FluidEngine::kNone;
    if (blocks) {
      of_activation = {source.after_forward[at(i)], target.before_forward[at(i)]};
      of_gradient = {target.after_backward[at(i)], source.before_backward[at(i)]};
    }
    const TransferActivities activation =
        send(before, i, waits ? source.first_forward_over : source.forward_last[at(i)],
             target.forward_first[at(i)], of_activation, previous_activation);
    const Activity produced = target.backward_last[at(i)];
    const TransferActivities gradient =
        send(after, i, produced, source.backward_first[at(i)], of_gradient, previous_gradient);
    if (!in_turn) continue;
    activations.push_back(activation);
    gradient_after[produced] = gradient;
  }
  if (!in_turn) return;
  // Two ranks that exchange do so one after the other: activations first, then the gradient that was computed
  // before.
  for (int i = 0; i < pipeline.micro_batches(); ++i)
    if (const auto gradient = gradient_after.find(target.before_forward[at(i)]);
        gradient != gradient_after.end())
      engine().order(activations[at(i)].last, gradient->second.first);
}

}  // namespace tombolo::planner
