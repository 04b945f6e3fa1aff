#include "planner/strategies/exhaustive.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "planner/cost/costs.h"
#include "planner/model/index.h"
#include "planner/strategies/rank_structures.h"

namespace tombolo::planner {

namespace {

constexpr std::size_t kMostRanks = 6;

double choose(int from, int count) {
  double ways = 1;
  for (int i = 0; i < count; ++i) ways = ways * (from - i) / (i + 1);
  return std::round(ways);
}

/// All ways to write `sum` as an ordered sum of `parts` integers > 0.
std::vector<std::vector<int>> compositions(int sum, int parts) {
  if (parts == 1) return sum >= 1 ? std::vector<std::vector<int>>{{sum}} : std::vector<std::vector<int>>{};
  std::vector<std::vector<int>> all;
  for (int first = 1; first + parts - 1 <= sum; ++first)
    for (std::vector<int>& rest : compositions(sum - first, parts - 1)) {
      rest.insert(rest.begin(), first);
      all.push_back(std::move(rest));
    }
  return all;
}

class Exhaustive {
 public:
  Exhaustive(const SearchContext& context, const Job& job, double limit)
      : context_(context),
        job_(job),
        scorer_(context, job),
        best_seconds_(limit),
        classes_(exchangeable_classes(context)),
        structures_(structures_of(context, job, classes_)) {
    schedules_ = context.options.schedules;
    if (schedules_.empty()) schedules_ = {{job.schedule, job.chunks}};
    for (int rows = 1; rows <= job.replica_rows(); ++rows)
      if (job.micro_batch == 0 || job.micro_batch == rows) micro_batches_.push_back(rows);
  }

  double count() {
    double sum = 0;
    for (const Structure& structure : structures_) {
      double layers = 1;
      const auto replicas = static_cast<int>(structure.size());
      const bool free = context_.options.uneven_replicas;
      for (const auto& pipeline : structure) {
        if (!free && &pipeline != &structure.front()) break;
        layers *= choose(job_.model.layers - 1, static_cast<int>(pipeline.size()) - 1);
      }
      layers *= static_cast<double>(savings_of(context_.options, job_, structure.size()).size());
      sum += layers * (free ? shares_in_all(replicas) : static_cast<double>(micro_batches_.size()));
    }
    return sum * static_cast<double>(schedules_.size());
  }

  /// The number of ways to give every replica rows, and a micro-batch that divides them.
  double shares_in_all(int replicas) const {
    std::vector<double> ways(at(job_.replica_rows()) + 1, 0);
    ways[0] = 1;
    for (int replica = 0; replica < replicas; ++replica) {
      std::vector<double> next(ways.size(), 0);
      for (int had = 0; had <= job_.replica_rows(); ++had)
        for (int rows = 1; had + rows <= job_.replica_rows() && ways[at(had)] > 0; ++rows)
          next[at(had + rows)] += ways[at(had)] * static_cast<double>(sizes_for(rows).size());
      ways = std::move(next);
    }
    return ways.back();
  }

  std::vector<int> sizes_for(int rows) const {
    std::vector<int> sizes;
    for (const int size : micro_batches_)
      if (rows % size == 0) sizes.push_back(size);
    return sizes;
  }

  std::optional<Plan> search() {
    for (const Structure& structure : structures_)
      for (const auto& [schedule, chunks] : schedules_) {
        if (job_.model.layers % chunks != 0) continue;
        for (const Saving& saving : savings_of(context_.options, job_, structure.size())) {
          layout_.schedule = schedule;
          layout_.chunks = chunks;
          layout_.saving = saving;
          try_rows(structure);
        }
      }
    if (!found_) return std::nullopt;
    return scorer_.plan(best_);
  }

 private:
  void try_rows(const Structure& structure) {
    const int replicas = static_cast<int>(structure.size());
    rows_.assign(structure.size(), {});
    if (context_.options.uneven_replicas) {
      share_rows(structure, 0, job_.replica_rows());
      return;
    }
    if (job_.replica_rows() % replicas != 0) return;
    for (const int size : sizes_for(job_.replica_rows() / replicas)) {
      std::ranges::fill(rows_, Share{job_.replica_rows() / replicas, size});
      try_layers(structure);
    }
  }

  void share_rows(const Structure& structure, std::size_t replica, int left) {
    const int others = static_cast<int>(structure.size() - replica) - 1;
    for (int rows = others == 0 ? std::max(1, left) : 1; rows + others <= left; ++rows)
      for (const int size : sizes_for(rows)) {
        rows_[replica] = {rows, size};
        if (others == 0)
          try_layers(structure);
        else
          share_rows(structure, replica + 1, left - rows);
      }
  }

  struct Share {
    int rows = 0, micro_batch = 0;
  };

  /// One split of the layers of one pipeline, with its lower bound.
  struct Split {
    double bound = 0;
    std::vector<int> layers;
  };

  void try_layers(const Structure& structure) {
    const int layers = job_.model.layers / layout_.chunks;
    std::vector<std::vector<Split>> splits;
    for (std::size_t replica = 0; replica < structure.size(); ++replica) {
      auto& some = splits.emplace_back();
      for (std::vector<int>& split : compositions(layers, static_cast<int>(structure[replica].size()))) {
        const double bound = bound_of(structure[replica], split, rows_[replica]);
        if (bound < best_seconds_) some.push_back({bound, std::move(split)});
      }
      std::ranges::stable_sort(some, {}, &Split::bound);
      if (some.empty()) return;
    }
    layout_.replicas.assign(structure.size(), {});
    combine(structure, splits, 0);
  }

  void combine(const Structure& structure, const std::vector<std::vector<Split>>& splits,
               std::size_t replica) {
    if (replica == structure.size()) {
      const double seconds = scorer_.seconds(layout_, best_seconds_);
      if (seconds >= best_seconds_) return;
      best_seconds_ = seconds;
      best_ = layout_;
      found_ = true;
      return;
    }
    for (const Split& split : splits[replica]) {
      if (split.bound >= best_seconds_) break;  // bounds are ascending
      if (!context_.options.uneven_replicas && replica > 0) {
        // All replicas must be split like the first.
        std::vector<int> same;
        for (const auto& slot : layout_.replicas[0].slots) same.push_back(slot.layers);
        if (split.layers != same) continue;
      }
      Layout::Replica& one = layout_.replicas[replica];
      one.rows = rows_[replica].rows;
      one.micro_batch = rows_[replica].micro_batch;
      one.slots.clear();
      for (std::size_t slot = 0; slot < split.layers.size(); ++slot)
        one.slots.push_back({structure[replica][slot], split.layers[slot]});
      combine(structure, splits, replica + 1);
    }
  }

  /// The lower bound of one pipeline, without a plan.
  double bound_of(const std::vector<RankGroup>& pipeline, const std::vector<int>& split, const Share& share) {
    const double micro_batches = share.rows / share.micro_batch;
    PipelineBound bound(layout_.schedule, micro_batches);
    for (std::size_t slot = 0; slot < pipeline.size(); ++slot) {
      const PassSeconds& layer = layer_seconds(pipeline[slot], share.micro_batch);
      const auto layers = [&](double count) {
        return PassSeconds{count * layer.forward, count * layer.backward_input,
                           count * layer.backward_weights};
      };
      bound.add_slot(layers(split[slot] * layout_.chunks), layers(split[slot]));
    }
    // Where cores are shared, computing can take longer but never less.
    return bound.seconds() * (1 - 1e-12);
  }

  const PassSeconds& layer_seconds(const RankGroup& group, int rows) {
    std::string key = fmt::format("{}:{}:{}:", rows, static_cast<int>(layout_.saving.recompute),
                                  layout_.saving.expert_parallel);
    for (const int rank : group) key += fmt::format("{},", classes_[at(rank)]);
    const auto [known, added] = layer_seconds_.try_emplace(std::move(key));
    if (!added) return known->second;
    Plan plan;
    plan.job = job_;
    // Where only as many layers are computed again as memory needs, the others are shorter.
    plan.job.recompute = job_.recompute_layers == 0 ? layout_.saving.recompute : Recompute::kNone;
    plan.job.recompute_layers = 0;
    plan.job.expert_parallel = layout_.saving.expert_parallel;
    plan.job.chunks = 1;
    plan.job.context_parallel = 1;
    const int degree = static_cast<int>(group.size());
    plan.pipelines = {{{{0, job_.model.layers, degree}}, rows, rows}};
    std::vector<int> ranks;
    for (int tensor = 0; tensor < degree; ++tensor) {
      const LauncherSlot& launcher_slot = context_.launcher_slots[at(group[at(tensor)])];
      plan.ranks.push_back({context_.view.host(launcher_slot.host).name, launcher_slot.device, 0, 0, tensor});
      ranks.push_back(tensor);
    }
    const SlotCosts costs = slot_costs(plan, context_.view, ranks);
    PassSeconds least = costs.layer;
    // Where a profile or mixtures tell layers apart, the time of the shortest is a bound for any.
    if (!costs.layers.empty())
      least =
          *std::ranges::min_element(costs.layers, {}, [](const PassSeconds& pass) { return pass.both(); });
    // Replicas that divide the positions of their rows take no less than their part of the work: floors and
    // exchanges only add to it.
    const double parts = job_.context_parallel;
    return known->second = {least.forward / parts, least.backward_input / parts,
                            least.backward_weights / parts};
  }

  const SearchContext& context_;
  const Job& job_;
  Scorer scorer_;
  double best_seconds_;
  std::vector<int> classes_;  // by rank
  std::vector<Structure> structures_;
  bool found_ = false;
  Layout best_, layout_;
  std::vector<std::pair<Schedule, int>> schedules_;
  std::vector<int> micro_batches_;
  std::vector<Share> rows_;  // by replica
  std::map<std::string, PassSeconds> layer_seconds_;
};

bool searchable(const SearchContext& context) {
  return context.launcher_slots.size() <= kMostRanks;
}

}  // namespace

double layouts_in_all(const SearchContext& context, const Job& job) {
  if (!searchable(context)) return Scorer::kNever;
  return Exhaustive(context, job, Scorer::kNever).count();
}

std::optional<Plan> exhaustive_plan(const SearchContext& context, const Job& job, double limit) {
  if (!searchable(context)) return std::nullopt;
  return Exhaustive(context, job, limit).search();
}

}  // namespace tombolo::planner
