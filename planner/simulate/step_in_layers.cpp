// The layers of replicas that divide experts, or rows' tokens, and are on several hosts.
#include <algorithm>
#include <cstdlib>

#include "planner/model/index.h"
#include "planner/simulate/step_builder.h"

namespace tombolo::planner {

/// Whether a worker, or one of those with which it divides rows' tokens, waits in each layer for others that
/// are on several hosts to exchange tokens for experts: all of these must come to as many exchanges.
bool StepBuilder::waits_in_each_layer(const Worker& worker) const {
  const int parts = plan_.job.context_parallel, first = worker.replica / parts * parts;
  for (int replica = first; replica < first + parts && at(replica) < workers_.size(); ++replica)
    if (workers_[at(replica)][at(worker.slot)].costs.expert_exchange.crosses()) return true;
  return worker.costs.expert_exchange.crosses();
}

/// Appends layers in which a worker waits for its group. What is exchanged for attention is in the middle of
/// what is not computed beside it; of layers that exchange nothing else it is summed up, since it is sent
/// evenly over them. To the experts and back is one exchange, in the middle of the layer: what is computed
/// between the two, the experts, is not told from the rest.
auto StepBuilder::append_with_exchanges(Worker& worker, const Operation& operation, int from, int to,
                                        const Beside& beside, const Append& append) -> Activities {
  Activity first = FluidEngine::kNone;
  const auto add = [&](double seconds) {
    const Activity computed = append(seconds);
    bar(bar_kind(operation.kind), worker, operation.micro_batch, computed, computed);
    if (first == FluidEngine::kNone) first = computed;
    return computed;
  };
  double pending = beside.before;
  const auto exchange_for_attention = [&](int layers, double seconds) {
    const auto& rounds = operation.kind == Operation::Kind::kForward ? worker.costs.context.forward
                                                                     : worker.costs.context.backward;
    double hidden = 0;
    for (const ContextRound& round : rounds) hidden += layers * round.beside;
    // Where launches decide, there is nothing else to compute.
    const double share = hidden > seconds ? seconds / hidden : 1, left = seconds - share * hidden;
    add(pending + left / 2);
    pending = 0;
    for (const ContextRound& round : rounds)
      exchange_rows(worker, operation, {layers * round.times, layers * round.waits},
                    share * layers * round.beside);
    return left / 2;
  };
  const bool for_attention = worker.costs.context.crosses();
  if (!waits_in_each_layer(worker)) {
    const Stage layers{std::min(from, to), std::abs(to - from) + 1};
    pending = exchange_for_attention(layers.layers,
                                     seconds_of(operation.kind, worker.costs.stage(layers, false, false)));
    const Activity last = add(pending + beside.after);
    return {first, last};
  }
  const int way = from <= to ? 1 : -1;
  for (int layer = from; layer != to + way; layer += way) {
    double seconds = seconds_of(operation.kind, worker.costs.of_layer(layer));
    if (for_attention) seconds = exchange_for_attention(1, seconds);
    if (model_.mlp_of(layer) == Mlp::kDense || !worker.costs.expert_exchange.crosses()) {
      pending += seconds;
      continue;
    }
    add(pending + seconds / 2);
    exchange_among_experts(worker, operation);
    pending = seconds / 2;
  }
  const Activity last = add(pending + beside.after);
  return {first, last};
}

/// Adds an exchange of a worker's group that sends so many times what it does once, and waits so often, in
/// activities of its own.
auto StepBuilder::add_exchange(const Worker& worker, GroupKind kind, int group, double times, double waits)
    -> ExchangeTurn {
  const SlotExchange& one = exchange_of(worker, kind);
  // What a worker computes meanwhile hides the wait, too.
  const ExchangeTurn added{engine().add_delay(0), engine().add_delay(0)};
  const Activity inside = engine().add_delay(times * one.inside_seconds),
                 arrival = engine().add_delay(waits * one.wait_seconds);
  engine().order(added.begin, inside);
  engine().order(inside, arrival);
  engine().order(arrival, added.end);
  const int noted = graph_.copies.empty() ? kNone : noted_exchanges_.at({kind, group, worker.slot});
  for (std::size_t i = 0; i < one.crossings.size(); ++i) {
    const SlotExchange::Crossing& crossing = one.crossings[i];
    const int number = noted + static_cast<int>(i);
    if (noted != kNone && !alike_.is_first(number)) continue;
    const double bytes = times * crossing.bytes;
    const TransferActivities flow = noted != kNone
                                        ? network_.add(alike_.for_all(number), bytes)
                                        : network_.add(from_end(crossing), to_end(crossing), bytes);
    engine().order(added.begin, flow.first);
    engine().order(flow.last, arrival);
  }
  return added;
}

/// Has a worker take part in the next exchange of its group, which begins when all have come to it. All
/// members are alike and so come to as many, in the same order.
void StepBuilder::exchange_among_experts(Worker& worker, const Operation& operation) {
  const int group = worker.replica / plan_.job.expert_parts();
  auto& exchanges = expert_groups_[{group, worker.slot}];
  const std::size_t number = worker.exchanges++;
  if (number == exchanges.size()) {
    const int count = expert_exchanges(plan_.job.recompute, operation.kind == Operation::Kind::kForward);
    exchanges.push_back(add_exchange(worker, GroupKind::kExperts, group, count, count));
  }
  const ExchangeTurn& shared = exchanges[number];
  engine().order(worker.last, shared.begin);
  bar(Bar::Kind::kExchange, worker, operation.micro_batch, shared.begin, shared.end);
  worker.last = shared.end;
}

/// Has a worker take part in the next round of the replicas that divide its rows' tokens, and compute
/// `beside` seconds meanwhile.
void StepBuilder::exchange_rows(Worker& worker, const Operation& operation, const ContextRound& round,
                                double beside) {
  const int group = worker.replica / plan_.job.context_parallel;
  auto& exchanges = context_groups_[{group, worker.slot}];
  const std::size_t number = worker.rounds++;
  if (number == exchanges.size())
    exchanges.push_back(add_exchange(worker, GroupKind::kContext, group, round.times, round.waits));
  const ExchangeTurn& shared = exchanges[number];
  engine().order(worker.last, shared.begin);
  Activity waits = shared.begin;
  if (beside > 0) {
    const Activity computed = compute(worker, beside);
    waits = engine().add_delay(0);
    engine().order(shared.begin, computed);
    engine().order(computed, waits);
    engine().order(waits, shared.end);
    bar(bar_kind(operation.kind), worker, operation.micro_batch, computed, computed);
  }
  const bool ring = plan_.job.context_exchange == ContextExchange::kRing;
  bar(ring ? Bar::Kind::kRing : Bar::Kind::kExchange, worker, operation.micro_batch, waits, shared.end);
  worker.last = shared.end;
}

}  // namespace tombolo::planner
