// The layers of replicas that divide experts, or rows' tokens, and are on several hosts.
#include <algorithm>
#include <cstdlib>

#include "planner/model/index.h"
#include "planner/simulate/step_builder.h"

namespace tombolo::planner {

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
  if (!worker.costs.expert_exchange.crosses()) {
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
    if (model_.mlp_of(layer) == Mlp::kDense) {
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

/// Adds an exchange that sends so many times what `one` does, and waits so often, in activities of its own.
auto StepBuilder::add_exchange(const SlotExchange& one, double times, double waits) -> ExchangeTurn {
  // What a worker computes meanwhile hides the wait, too.
  const ExchangeTurn added{engine().add_delay(0), engine().add_delay(0)};
  const Activity inside = engine().add_delay(times * one.inside_seconds),
                 arrival = engine().add_delay(waits * one.wait_seconds);
  engine().order(added.begin, inside);
  engine().order(inside, arrival);
  engine().order(arrival, added.end);
  for (const SlotExchange::Crossing& crossing : one.crossings) {
    const TransferEnd from{crossing.from.front(), crossing.from_host, crossing.from_ranks,
                           network_.senders(crossing.from)};
    const TransferEnd to{crossing.to.front(), crossing.to_host, crossing.to_ranks,
                         network_.senders(crossing.to)};
    const TransferActivities flow = network_.add(from, to, times * crossing.bytes);
    engine().order(added.begin, flow.first);
    engine().order(flow.last, arrival);
  }
  return added;
}

/// Has a worker take part in the next exchange of its group, which begins when all have come to it. All
/// members are alike and so come to as many, in the same order.
void StepBuilder::exchange_among_experts(Worker& worker, const Operation& operation) {
  auto& exchanges = expert_groups_[{worker.replica / plan_.job.expert_parts(), worker.slot}];
  const std::size_t number = worker.exchanges++;
  if (number == exchanges.size()) {
    const int count = expert_exchanges(plan_.job.recompute, operation.kind == Operation::Kind::kForward);
    exchanges.push_back(add_exchange(worker.costs.expert_exchange, count, count));
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
  auto& exchanges = context_groups_[{worker.replica / plan_.job.context_parallel, worker.slot}];
  const std::size_t number = worker.rounds++;
  if (number == exchanges.size())
    exchanges.push_back(add_exchange(worker.costs.context.once, round.times, round.waits));
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
