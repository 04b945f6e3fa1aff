// The layers of replicas that divide experts and are on several hosts.
#include <algorithm>
#include <cstdlib>

#include "planner/model/index.h"
#include "planner/simulate/step_builder.h"

namespace tombolo::planner {

/// Appends layers in whose mixtures a worker waits for its group. To the experts and back is one exchange, in
/// the middle of the layer: what is computed between the two, the experts, is not told from the rest.
auto StepBuilder::append_with_exchanges(Worker& worker, const Operation& operation, int from, int to,
                                        const Beside& beside, const Append& append) -> Activities {
  Activity first = FluidEngine::kNone;
  const auto add = [&](double seconds) {
    const Activity computed = append(seconds);
    bar(bar_kind(operation.kind), worker, operation.micro_batch, computed, computed);
    if (first == FluidEngine::kNone) first = computed;
    return computed;
  };
  const int way = from <= to ? 1 : -1;
  double pending = beside.before;
  for (int layer = from; layer != to + way; layer += way) {
    const double seconds = seconds_of(operation.kind, worker.costs.of_layer(layer));
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

/// Has a worker take part in the next exchange of its group, which begins when all have come to it. All
/// members are alike and so come to as many, in the same order.
void StepBuilder::exchange_among_experts(Worker& worker, const Operation& operation) {
  auto& exchanges = expert_groups_[{worker.replica / plan_.job.expert_parts(), worker.slot}];
  const std::size_t number = worker.exchanges++;
  if (number == exchanges.size()) {
    const ExpertExchange& one = worker.costs.expert_exchange;
    const int count = expert_exchanges(plan_.job.recompute, operation.kind == Operation::Kind::kForward);
    const GroupExchange added{engine().add_delay(0), engine().add_delay(count * one.wait_seconds)};
    const Activity inside = engine().add_delay(count * one.inside_seconds);
    engine().order(added.begin, inside);
    engine().order(inside, added.end);
    for (const ExpertExchange::Crossing& crossing : one.crossings) {
      const TransferEnd from{crossing.from.front(), crossing.from_host, crossing.from_ranks,
                             network_.senders(crossing.from)};
      const TransferEnd to{crossing.to.front(), crossing.to_host, crossing.to_ranks,
                           network_.senders(crossing.to)};
      const TransferActivities flow = network_.add(from, to, count * crossing.bytes);
      engine().order(added.begin, flow.first);
      engine().order(flow.last, added.end);
    }
    exchanges.push_back(added);
  }
  const GroupExchange& shared = exchanges[number];
  engine().order(worker.last, shared.begin);
  bar(Bar::Kind::kExchange, worker, operation.micro_batch, shared.begin, shared.end);
  worker.last = shared.end;
}

}  // namespace tombolo::planner
