#include "planner/cost/context_rounds.h"

namespace tombolo::planner {

ContextRounds context_rounds(const Job& job, const ClusterView& view, const ComputeProfile& profile,
                             const std::vector<SlotMember>& members, double rows, const CoreSeconds& core) {
  if (members.size() < 2) return {};
  const Model& model = job.model;
  const double parts = static_cast<double>(members.size());
  // Of one value per token and slot.
  const double one = rows * model.context / parts * model.bytes_per_value;
  const double keys_values = model.keys_values_width();
  ContextRounds rounds;
  if (job.context_exchange == ContextExchange::kAllToAll) {
    const double values = 1.0 * model.query_width() + model.attention_width() + keys_values;
    rounds.once = all_to_all(view, profile, members, values * one / parts);
    rounds.forward = rounds.backward = {{1, 4, 0}};
  } else {
    rounds.once = ring_hop(view, profile, members, keys_values * one);
    const double others = (parts - 1) / parts;
    rounds.forward = {{parts - 1, parts - 1, others * core.forward}};
    rounds.backward = {{2 * (parts - 1), 2 * (parts - 1), others * core.backward}, {1, 1, 0}};
  }
  if (job.recompute == Recompute::kFull)
    rounds.backward.insert(rounds.backward.begin(), rounds.forward.begin(), rounds.forward.end());
  return rounds;
}

}  // namespace tombolo::planner
