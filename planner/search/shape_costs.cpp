#include "planner/search/shape_costs.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "planner/cost/memory.h"
#include "planner/cost/reserve.h"
#include "planner/model/index.h"

namespace tombolo::planner {

ShapeCosts::ShapeCosts(const SearchContext& context, const Job& job, const std::vector<Pool>& pools)
    : context_(context), job_(job), pools_(pools) {}

const ShapeCosts::Cost& ShapeCosts::of(int pool, int degree, int micro_batch, const Saving& saving) {
  static const Cost kImpossible{{}, {}, false};
  const Pool& devices = pools_[at(pool)];
  if (degree > devices.size() || job_.model.heads % degree != 0 ||
      (job_.tensor > 0 ? degree != job_.tensor : degree > 1 && !traits(job_.framework).tensor_parallel))
    return kImpossible;
  const auto [known, added] = costs_.try_emplace(
      {devices.type, degree, micro_batch, saving.recompute, saving.expert_parallel}, Cost{});
  if (!added) return known->second;
  Plan plan;
  plan.job = job_;
  plan.job.set(saving);
  plan.job.recompute_layers = 0;
  plan.job.chunks = 1;
  plan.pipelines = {{{{0, job_.model.layers, degree}}, micro_batch, micro_batch}};
  std::vector<int> ranks;
  for (int tensor = 0; tensor < degree; ++tensor) {
    const LauncherSlot& launcher_slot = context_.launcher_slots[at(devices.ranks[at(tensor)])];
    plan.ranks.push_back({context_.view.host(launcher_slot.host).name, launcher_slot.device, 0, 0, tensor});
    ranks.push_back(tensor);
  }
  Cost& cost = known->second;
  try {
    const SlotCosts found = slot_costs(plan, context_.view, ranks);
    cost.layer = found.layer;
    cost.head = found.head;
    if (!found.layers.empty()) {  // where a profile or mixtures tell layers apart, their mean is used
      const PassSeconds sum = found.stage(plan.pipelines[0].stages[0], false, false);
      const double share = 1.0 / job_.model.layers;
      cost.layer = {share * sum.forward, share * sum.backward_input, share * sum.backward_weights};
    }
  } catch (const Error&) {  // the profile lacks that degree
    cost.possible = false;
  }
  return cost;
}

double ShapeCosts::layer_seconds(int pool, int degree, const Shape& shape) {
  const Cost& cost = of(pool, degree, shape);
  return cost.possible ? cost.layer.both() : Scorer::kNever;
}

double ShapeCosts::head_seconds(int pool, int degree, const Shape& shape) {
  return of(pool, degree, shape).head.both();
}

auto ShapeCosts::room_of(const Shape::Kind& kind, int slot, const Shape& shape, const Saving& saving,
                         bool each_too) -> Room& {
  const Shape::PipelineSlot& one = kind.slots[at(slot)];
  const Pool& pool = pools_[at(one.pool)];
  const int slots = static_cast<int>(kind.slots.size());
  const int most = kind.micro_batches > 0 ? kind.micro_batches_of_one() : job_.replica_rows();
  const int held = micro_batches_in_flight(slot, slots, most);
  const bool first = slot == 0, last = slot + 1 == slots;
  const int replicas = saving.sharding != Sharding::kNone ? shape.replicas() : 1;
  const auto [known, added] = rooms_.try_emplace(
      {pool.type, one.degree, held, first, last, replicas, shape.micro_batch, saving}, Room{});
  Room& room = known->second;
  if (!added && (room.each >= 0 || !each_too)) return room;
  const LauncherSlot& launcher_slot = context_.launcher_slots[at(pool.ranks.front())];
  room.available =
      usable_memory(job_, context_.view.host(launcher_slot.host).devices[at(launcher_slot.device)]);
  if (room.available <= 0) return room;
  // A plan is needed whose pipeline holds as many micro-batches on some slot.
  Plan plan;
  plan.job = job_;
  plan.job.set(saving);
  plan.job.recompute_layers = 0;
  plan.job.chunks = 1;
  plan.job.schedule = Schedule::kOneForwardOneBackward;
  plan.job.data = replicas;
  const int before = first ? 0 : 1, after = last ? 0 : std::max(1, held - 1);
  Pipeline pipeline;
  pipeline.micro_batch = shape.micro_batch;
  pipeline.rows = held * shape.micro_batch;
  pipeline.stages.assign(at(before + 1 + after), {0, 1, one.degree});
  plan.pipelines.assign(at(replicas), pipeline);
  const auto bytes = [&](int layers) {
    plan.pipelines[0].stages[at(before)].layers = layers;
    return static_cast<double>(rank_memory(plan, 0, before).total);
  };
  room.alone = bytes(1);
  if (room.alone > room.available && !each_too) return room;
  // Dense layers and mixtures count as their mean.
  const int more = job_.model.mixed() ? job_.model.layers : 2;
  if (job_.model.layers >= 2) room.each = (bytes(more) - room.alone) / (more - 1);
  return room;
}

int ShapeCosts::room(const Shape::Kind& kind, int slot, const Shape& shape) {
  const Room& room = room_of(kind, slot, shape, shape.saving, false);
  if (room.available <= 0) return job_.model.layers;
  if (room.alone > room.available) return 0;
  if (job_.model.layers < 2) return 1;
  return 1 + static_cast<int>(std::min((room.available - room.alone) / room.each, 1e6));
}

int ShapeCosts::layers_again(const Shape& shape) {
  const int all = job_.model.layers;
  if (shape.saving.recompute != Recompute::kFull || job_.recompute_layers == 0) return all;
  if (job_.recompute_layers > 0) return std::min(job_.recompute_layers, all);
  if (shape.saving.expert_parallel > 1 || job_.context_parallel > 1 || all < 2) return all;
  int needed = 1;
  for (const Shape::Kind& kind : shape.kinds)
    for (std::size_t slot = 0; slot < kind.slots.size(); ++slot) {
      const int number = static_cast<int>(slot), layers = kind.slots[slot].layers;
      if (layers <= needed) continue;
      Room& again = room_of(kind, number, shape, shape.saving, true);
      if (again.available <= 0) continue;
      if (again.kept_each < 0) {
        Saving kept = shape.saving;
        kept.recompute = Recompute::kNone;
        again.kept_each = room_of(kind, number, shape, kept, true).each;
      }
      const double more = again.kept_each - again.each;
      const double left = again.available - again.alone - (layers - 1) * again.each;
      if (more > 0) needed = std::max(needed, layers - static_cast<int>(std::max(0.0, left) / more));
    }
  return std::min(needed, all);
}

bool ShapeCosts::give_layers(Shape::Kind& kind, const Shape& shape) {
  const auto slots = kind.slots.size();
  if (slots > at(job_.model.layers)) return false;
  std::vector<double> seconds(slots), then(slots);
  std::vector<int> left_room(slots);
  for (std::size_t i = 0; i < slots; ++i) {
    Shape::PipelineSlot& slot = kind.slots[i];
    seconds[i] = layer_seconds(slot.pool, slot.degree, shape);
    left_room[i] = room(kind, static_cast<int>(i), shape) - 1;
    if (seconds[i] == Scorer::kNever || left_room[i] < 0) return false;
    slot.layers = 1;
    then[i] = 2 * seconds[i];
  }
  then.back() += head_seconds(kind.slots.back().pool, kind.slots.back().degree, shape);
  for (int left = job_.model.layers - static_cast<int>(slots); left > 0; --left) {
    std::size_t best = slots;
    for (std::size_t i = 0; i < slots; ++i)
      if (left_room[i] > 0 && (best == slots || then[i] < then[best])) best = i;
    if (best == slots) return false;
    ++kind.slots[best].layers;
    --left_room[best];
    then[best] += seconds[best];
  }
  return true;
}

double ShapeCosts::tick(const Shape::Kind& kind, const Shape& shape) {
  double slowest = 0;
  for (const Shape::PipelineSlot& slot : kind.slots)
    slowest = std::max(slowest,
                       slot.layers * layer_seconds(slot.pool, slot.degree, shape) +
                           (&slot == &kind.slots.back() ? head_seconds(slot.pool, slot.degree, shape) : 0));
  return slowest;
}

bool ShapeCosts::share_micro_batches(Shape& shape) {
  if (job_.replica_rows() % shape.micro_batch != 0) return false;
  const int all = job_.replica_rows() / shape.micro_batch, replicas = shape.replicas();
  if (all < replicas) return false;
  if (!context_.options.uneven_replicas) {
    if (all % replicas != 0) return false;
    for (Shape::Kind& kind : shape.kinds) kind.micro_batches = all / replicas * kind.count;
    return true;
  }
  std::vector<double> ticks;
  double speed = 0;
  for (const Shape::Kind& kind : shape.kinds) {
    ticks.push_back(tick(kind, shape));
    speed += kind.count / ticks.back();
  }
  int left = all;
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    Shape::Kind& kind = shape.kinds[i];
    kind.micro_batches =
        std::max(kind.count, static_cast<int>(std::floor(0.9 * all * kind.count / ticks[i] / speed)));
    left -= kind.micro_batches;
  }
  const auto end = [&](std::size_t i, int more) {
    const Shape::Kind& kind = shape.kinds[i];
    return ((kind.micro_batches + more + kind.count - 1) / kind.count +
            static_cast<double>(kind.slots.size()) - 1) *
           ticks[i];
  };
  for (; left > 0; --left) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < ticks.size(); ++i)
      if (end(i, 1) < end(best, 1)) best = i;
    ++shape.kinds[best].micro_batches;
  }
  for (; left < 0; ++left) {
    const auto spare = [&](std::size_t i) { return shape.kinds[i].micro_batches > shape.kinds[i].count; };
    std::size_t worst = 0;
    for (std::size_t i = 1; i < ticks.size(); ++i)
      if (spare(i) && (!spare(worst) || end(i, 0) > end(worst, 0))) worst = i;
    --shape.kinds[worst].micro_batches;
  }
  return true;
}

}  // namespace tombolo::planner
