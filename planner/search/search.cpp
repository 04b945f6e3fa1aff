#include "planner/search/search.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "planner/cost/memory.h"
#include "planner/cost/reserve.h"
#include "planner/model/index.h"

namespace tombolo::planner {

std::uint64_t fingerprint(const Plan& plan) {
  std::uint64_t state = 14695981039346656037U;  // FNV-1a, 64 bits at a time
  const auto add = [&](std::uint64_t number) {
    state = (state ^ number) * 1099511628211U;
    state ^= state >> 29U;
  };
  const Job& job = plan.job;
  for (const int number : {static_cast<int>(job.schedule), job.chunks, static_cast<int>(job.recompute),
                           static_cast<int>(job.sharding), static_cast<int>(job.sequence_parallel)})
    add(static_cast<std::uint64_t>(number));
  for (const Pipeline& pipeline : plan.pipelines) {
    add(static_cast<std::uint64_t>(pipeline.rows));
    add(static_cast<std::uint64_t>(pipeline.micro_batch));
    for (const Stage& stage : pipeline.stages) {
      add(static_cast<std::uint64_t>(stage.layers));
      add(static_cast<std::uint64_t>(stage.tensor));
    }
  }
  for (const RankPlacement& rank : plan.ranks) {
    add(std::hash<std::string>{}(rank.host));
    for (const int number : {rank.device, rank.stage, rank.replica, rank.tensor})
      add(static_cast<std::uint64_t>(number));
  }
  return state;
}

void PipelineBound::add_slot(const PassSeconds& pass) {
  seconds_ = std::max(seconds_, micro_batches_ * pass.both() + outside(pass));
  before_ += pass.both();
  forward_before_ += pass.forward;
  input_before_ += pass.backward_input;
  ++slots_;
}

/// The time that the slots before need while this one cannot compute yet, or has finished.
double PipelineBound::outside(const PassSeconds& pass) const {
  if (chunks_ > 1) return 0;  // with chunks, a micro-batch passes the slots before in parts
  if (schedule_ != Schedule::kZeroBubbleH1) return before_;
  // While the last micro-batch goes back, up to slots_ + 1 postponed gradients of weights can be computed.
  return forward_before_ + std::max(0.0, input_before_ - (slots_ + 1) * pass.backward_weights);
}

double lower_bound(const Plan& plan, const ClusterView& view) {
  double bound = 0, on_shared = 0, optimizer = 0;
  const auto slots = plan.ranks_by_slot();
  for (int replica = 0; replica < plan.data_size(); ++replica) {
    const Pipeline& pipeline = plan.pipelines[at(replica)];
    const double micro_batches = pipeline.micro_batches();
    PipelineBound of_pipeline(plan.job.schedule, plan.job.chunks, micro_batches);
    for (int slot = 0; slot < plan.pipeline_size(replica); ++slot) {
      const std::vector<int>& ranks = slots[at(replica)][at(slot)];
      const SlotCosts costs = slot_costs(plan, view, ranks);
      const bool last = slot + 1 == plan.pipeline_size(replica);
      PassSeconds pass;
      for (int chunk = 0; chunk < plan.job.chunks; ++chunk) {
        const int stage = chunk * plan.pipeline_size(replica) + slot;
        const PassSeconds part =
            costs.stage(pipeline.stages[at(stage)], stage == 0, last && chunk + 1 == plan.job.chunks);
        pass.forward += part.forward;
        pass.backward_input += part.backward_input;
        pass.backward_weights += part.backward_weights;
      }
      const double seconds = pass.both();
      optimizer = std::max(optimizer, costs.optimizer);
      if (view.shares_processor(view.host_index(plan.ranks[at(ranks.front())].host)))
        on_shared += static_cast<double>(ranks.size()) * (micro_batches * seconds + costs.optimizer);
      of_pipeline.add_slot(pass);
    }
    bound = std::max(bound, of_pipeline.seconds());
  }
  bound += optimizer;
  if (view.cluster().shared_processor)
    bound = std::max(bound, on_shared / view.cluster().shared_processor->cores);
  return bound;
}

std::optional<Simulation> simulate_if_linked(const Plan& plan, const ClusterView& view, double limit,
                                             std::string* why) {
  try {
    Simulation simulation = simulate(plan, view, {.spans = false, .limit_seconds = limit});
    if (simulation.step_seconds >= limit) return std::nullopt;
    return simulation;
  } catch (const Error& error) {
    if (error.cause() != Cause::kInvalidUsage) throw;
    if (why && why->empty()) *why = error.what();
    return std::nullopt;
  }
}

Missing missing_memory(const Plan& plan, const ClusterView& view) {
  Missing most;
  const std::vector<RankMemory> memory = memory_by_rank(plan);
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank)
    if (const std::uint64_t missing = missing_on(plan.job, view, plan.ranks[rank], memory[rank].total);
        missing > most.bytes)
      most = {missing, static_cast<int>(rank)};
  return most;
}

std::uint64_t missing_on(const Job& job, const ClusterView& view, const RankPlacement& place,
                         std::uint64_t needed) {
  const auto& device = view.host(view.host_index(place.host)).devices[at(place.device)];
  if (device.memory_bytes <= 0) return 0;
  const auto available = static_cast<std::uint64_t>(usable_memory(job, device));
  return needed > available ? needed - available : 0;
}

}  // namespace tombolo::planner
