#include "planner/search/layout.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "planner/cost/memory.h"
#include "planner/model/index.h"
#include "planner/plan/inexpressible.h"
#include "planner/search/layers_again.h"

namespace tombolo::planner {

bool Layout::uniform() const {
  const Replica& first = replicas.front();
  return std::ranges::all_of(replicas, [&](const Replica& one) {
    return one.rows == first.rows && one.micro_batch == first.micro_batch &&
           std::ranges::equal(one.slots, first.slots, [&](const PipelineSlot& a, const PipelineSlot& b) {
             return a.layers == b.layers && a.ranks.size() == b.ranks.size() &&
                    a.ranks.size() == first.slots.front().ranks.size();
           });
  });
}

Layout layout_of(const SearchContext& context, const Plan& plan) {
  std::map<std::pair<std::string, int>, int> launcher_rank;
  for (std::size_t rank = 0; rank < context.launcher_slots.size(); ++rank) {
    const LauncherSlot& launcher_slot = context.launcher_slots[rank];
    launcher_rank[{context.view.host(launcher_slot.host).name, launcher_slot.device}] =
        static_cast<int>(rank);
  }
  Layout layout;
  layout.schedule = plan.job.schedule;
  layout.chunks = plan.job.chunks;
  layout.saving = plan.job.saving();
  const auto slots = plan.ranks_by_slot();
  for (int replica = 0; replica < plan.data_size(); ++replica) {
    const Pipeline& pipeline = plan.pipelines[at(replica)];
    Layout::Replica& one = layout.replicas.emplace_back();
    one.rows = pipeline.rows;
    one.micro_batch = pipeline.micro_batch;
    for (int slot = 0; slot < plan.pipeline_size(replica); ++slot) {
      Layout::PipelineSlot& taken = one.slots.emplace_back();
      taken.layers = plan.stage(slot, replica).layers;
      for (const int rank : slots[at(replica)][at(slot)]) {
        const RankPlacement& where = plan.ranks[at(rank)];
        taken.ranks.push_back(launcher_rank.at({where.host, where.device}));
      }
    }
  }
  return layout;
}

Plan plan_of(const SearchContext& context, const Job& job, const Layout& layout) {
  Plan plan;
  plan.strategy = context.options.strategy;
  plan.routing = context.options.routing;
  plan.job = job;
  plan.job.schedule = layout.schedule;
  plan.job.chunks = layout.chunks;
  plan.job.set(layout.saving);
  const Layout::Replica& first = layout.replicas.front();
  plan.job.pipeline = static_cast<int>(first.slots.size());
  plan.job.data = static_cast<int>(layout.replicas.size());
  plan.job.tensor = static_cast<int>(first.slots.front().ranks.size());
  plan.job.micro_batch = first.micro_batch;
  bool shared = false;
  std::vector<int> number(context.launcher_slots.size(), -1);
  for (const Layout::Replica& replica : layout.replicas)
    for (const Layout::PipelineSlot& slot : replica.slots)
      for (const int rank : slot.ranks) number[at(rank)] = 0;
  int taken = 0;
  for (std::size_t rank = 0; rank < number.size(); ++rank) {
    const LauncherSlot& launcher_slot = context.launcher_slots[rank];
    if (number[rank] == 0)
      number[rank] = taken++;
    else
      plan.left_out.push_back({context.view.host(launcher_slot.host).name, launcher_slot.device});
  }
  plan.ranks.resize(at(taken));
  for (std::size_t replica = 0; replica < layout.replicas.size(); ++replica) {
    const Layout::Replica& one = layout.replicas[replica];
    Pipeline pipeline;
    pipeline.rows = one.rows;
    pipeline.micro_batch = one.micro_batch;
    int next = 0;
    for (int chunk = 0; chunk < layout.chunks; ++chunk)
      for (const Layout::PipelineSlot& slot : one.slots) {
        pipeline.stages.push_back({next, slot.layers, static_cast<int>(slot.ranks.size())});
        next += slot.layers;
      }
    plan.pipelines.push_back(std::move(pipeline));
    for (std::size_t stage = 0; stage < one.slots.size(); ++stage) {
      const std::vector<int>& ranks = one.slots[stage].ranks;
      shared |= ranks.size() > 1;
      for (std::size_t tensor = 0; tensor < ranks.size(); ++tensor) {
        const LauncherSlot& launcher_slot = context.launcher_slots[at(ranks[tensor])];
        plan.ranks[at(number[at(ranks[tensor])])] = {context.view.host(launcher_slot.host).name,
                                                     launcher_slot.device, static_cast<int>(stage),
                                                     static_cast<int>(replica), static_cast<int>(tensor)};
      }
    }
  }
  plan.job.sequence_parallel = job.sequence_parallel && plan.job.tensor > 1 && shared;
  plan.job.overlap_tensor = job.overlap_tensor && plan.job.sequence_parallel;
  plan.job.overlap_parameters = job.overlap_parameters && plan.job.sharded() && plan.job.data > 1;
  return plan;
}

bool Scorer::sound(const Layout& layout) const {
  const auto& open = context_.options.schedules;
  const std::pair schedule(layout.schedule, layout.chunks);
  if (!open.empty() && std::ranges::find(open, schedule) == open.end()) return false;
  if (layout.replicas.size() % at(job_.context_parallel) != 0 ||
      !job_.context_misfit(static_cast<int>(layout.replicas.front().slots.front().ranks.size())).empty())
    return false;
  if (layout.replicas.size() % at(layout.saving.expert_parallel) != 0) return false;
  int rows = 0;
  for (const Layout::Replica& replica : layout.replicas) {
    if (replica.micro_batch < 1 || replica.rows < 1 || replica.rows % replica.micro_batch != 0) return false;
    rows += replica.rows;
    int layers = 0;
    for (const Layout::PipelineSlot& slot : replica.slots) {
      if (slot.layers < 1 || job_.model.heads % static_cast<int>(slot.ranks.size()) != 0) return false;
      layers += slot.layers * layout.chunks;
    }
    if (layers != job_.model.layers) return false;
    if (layout.chunks > 1 &&
        (replica.slots.size() < 2 ||
         replica.rows / replica.micro_batch % static_cast<int>(replica.slots.size()) != 0))
      return false;
  }
  return rows == job_.replica_rows() &&
         ((context_.options.uneven_replicas && layout.saving.expert_parallel == 1) || layout.uniform());
}

double Scorer::seconds(const Layout& layout, double limit) {
  if (!sound(layout)) return kNever;
  Plan plan = plan_of(context_, job_, layout);
  settle_layers_again(plan, context_.view);
  const double worth = context_.worth(limit);
  if (limit < kNever && lower_bound(plan, context_.view) >= worth) return kNever;
  if (!inexpressible(plan, job_.framework).empty()) return kNever;
  if (missing_memory(plan, context_.view).bytes > 0) return kNever;
  ++simulated_;
  const auto step = context_.step_time(plan, worth);
  if (!step) return kNever;
  plan.prediction.step_seconds = step->seconds;
  plan.prediction.bubble_fraction = step->bubble_fraction;
  context_.offer(plan);
  return step->seconds < limit ? step->seconds : kNever;
}

Plan Scorer::plan(const Layout& layout) const {
  Plan plan = plan_of(context_, job_, layout);
  settle_layers_again(plan, context_.view);
  std::string why;
  const auto step = context_.step_time(plan, kNever, &why);
  if (!step) fail(Cause::kInvalidUsage, "{}", why);
  plan.prediction.memory = memory_by_rank(plan);
  plan.prediction.step_seconds = step->seconds;
  plan.prediction.bubble_fraction = step->bubble_fraction;
  return plan;
}

}  // namespace tombolo::planner
