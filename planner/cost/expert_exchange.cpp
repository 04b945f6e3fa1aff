#include "planner/cost/expert_exchange.h"

namespace tombolo::planner {

SlotExchange expert_exchange(const Job& job, const ClusterView& view, const ComputeProfile& profile,
                             const std::vector<SlotMember>& members, double rows) {
  if (members.size() < 2) return {};
  const Model& model = job.model;
  const double tokens = rows * model.context / job.context_parallel;
  const double to_one = job.expert_load() * tokens * model.experts_per_token * model.hidden *
                        model.bytes_per_value / static_cast<double>(members.size());
  return all_to_all(view, profile, members, to_one);
}

int expert_exchanges(Recompute recompute, bool forward) noexcept {
  return !forward && recompute == Recompute::kFull ? 4 : 2;
}

}  // namespace tombolo::planner
