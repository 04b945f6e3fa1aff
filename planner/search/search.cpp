#include "planner/search/search.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "planner/cost/border.h"
#include "planner/cost/memory.h"
#include "planner/cost/reserve.h"
#include "planner/model/index.h"

namespace tombolo::planner {

void PipelineBound::add_slot(const PassSeconds& all_chunks, const PassSeconds& first_chunk) {
  seconds_ = std::max(seconds_, micro_batches_ * all_chunks.both() + outside(all_chunks));
  before_ += first_chunk.both();
  forward_before_ += first_chunk.forward;
  input_before_ += first_chunk.backward_input;
  ++slots_;
}

/// The time that the slots before need while this one cannot compute yet, or has finished.
double PipelineBound::outside(const PassSeconds& pass) const {
  if (!splits_backward(schedule_)) return before_;
  // While the last micro-batch goes back, up to slots_ + 1 postponed gradients of weights can be computed.
  return forward_before_ + std::max(0.0, input_before_ - (slots_ + 1) * pass.backward_weights);
}

namespace {

/// The shared links, by index, that every transfer between two hosts crosses, whichever of their NICs it
/// takes.
std::vector<int> crossed_by_all(const ClusterView& view, int from, int to) {
  if (from == to || !view.linked(from, to)) return {};
  const Path& path = view.path(from, to);
  std::vector<int> crossed = path.shared;
  if (crossed.empty()) return crossed;
  for (const int out : *path.from_nics)
    for (const int in : *path.to_nics) {
      const std::vector<int> by_pair = view.shared_between(from, out, to, in);
      std::erase_if(crossed, [&](int link) { return std::ranges::find(by_pair, link) == by_pair.end(); });
    }
  return crossed;
}

/// The longest time that any shared link takes to pass on the activations of a step and their gradients.
double shared_link_seconds(const Plan& plan, const ClusterView& view,
                           const std::vector<std::vector<std::vector<int>>>& slots) {
  if (view.cluster().shared_links.empty()) return 0;
  std::map<int, double> bytes_over;
  for (int replica = 0; replica < plan.data_size(); ++replica) {
    const Pipeline& pipeline = plan.pipelines[at(replica)];
    const auto host_of = [&](std::size_t stage) {
      const std::vector<int>& ranks = slots[at(replica)][stage % slots[at(replica)].size()];
      return view.host_index(plan.ranks[at(ranks.front())].host);
    };
    for (std::size_t stage = 0; stage + 1 < pipeline.stages.size(); ++stage) {
      const double bytes = pipeline.micro_batches() * sent_at_border(plan, replica, static_cast<int>(stage));
      const int before = host_of(stage), after = host_of(stage + 1);
      for (const int link : crossed_by_all(view, before, after)) bytes_over[link] += bytes;
      for (const int link : crossed_by_all(view, after, before)) bytes_over[link] += bytes;
    }
  }
  double longest = 0;
  for (const auto& [link, bytes] : bytes_over)
    longest = std::max(longest, bytes / view.cluster().shared_links[at(link)].bytes_per_second);
  return longest;
}

}  // namespace

double lower_bound(const Plan& plan, const ClusterView& view) {
  double bound = 0, on_shared = 0, optimizer = 0;
  const auto slots = plan.ranks_by_slot();
  for (int replica = 0; replica < plan.data_size(); ++replica) {
    const Pipeline& pipeline = plan.pipelines[at(replica)];
    const double micro_batches = pipeline.micro_batches();
    PipelineBound of_pipeline(plan.job.schedule, micro_batches);
    for (int slot = 0; slot < plan.pipeline_size(replica); ++slot) {
      const std::vector<int>& ranks = slots[at(replica)][at(slot)];
      const SlotCosts costs = slot_costs(plan, view, ranks);
      const bool last = slot + 1 == plan.pipeline_size(replica);
      PassSeconds all, first;
      for (int chunk = 0; chunk < plan.job.chunks; ++chunk) {
        const int stage = chunk * plan.pipeline_size(replica) + slot;
        const PassSeconds part =
            costs.stage(pipeline.stages[at(stage)], stage == 0, last && chunk + 1 == plan.job.chunks);
        if (chunk == 0) first = part;
        all.forward += part.forward;
        all.backward_input += part.backward_input;
        all.backward_weights += part.backward_weights;
      }
      optimizer = std::max(optimizer, costs.optimizer);
      if (view.shares_processor(view.host_index(plan.ranks[at(ranks.front())].host)))
        on_shared += static_cast<double>(ranks.size()) * (micro_batches * all.both() + costs.optimizer);
      of_pipeline.add_slot(all, first);
    }
    bound = std::max(bound, of_pipeline.seconds());
  }
  bound = std::max(bound, shared_link_seconds(plan, view, slots)) + optimizer;
  if (view.cluster().shared_processor)
    bound = std::max(bound, on_shared / view.cluster().shared_processor->cores);
  return bound;
}

Missing missing_memory(const Plan& plan, const ClusterView& view) {
  return missing_memory(plan, memory_by_rank(plan), view);
}

Missing missing_memory(const Plan& plan, const std::vector<RankMemory>& needed, const ClusterView& view) {
  Missing most;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank)
    if (const std::uint64_t missing = missing_on(plan.job, view, plan.ranks[rank], needed[rank].total);
        missing > most.bytes)
      most = {missing, static_cast<int>(rank)};
  return most;
}

std::optional<std::uint64_t> available_on(const Job& job, const ClusterView& view,
                                          const RankPlacement& place) {
  const auto& device = view.host(view.host_index(place.host)).devices[at(place.device)];
  if (device.memory_bytes <= 0) return std::nullopt;
  return static_cast<std::uint64_t>(usable_memory(job, device));
}

std::uint64_t missing_on(const Job& job, const ClusterView& view, const RankPlacement& place,
                         std::uint64_t needed) {
  const auto available = available_on(job, view, place);
  return available && needed > *available ? needed - *available : 0;
}

}  // namespace tombolo::planner
