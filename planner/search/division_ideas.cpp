#include "planner/search/division_ideas.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "planner/cost/reserve.h"
#include "planner/model/index.h"

namespace tombolo::planner {

namespace {

bool alike(const std::vector<std::vector<Unit>>& pipelines) {
  return std::ranges::all_of(pipelines, [&](const auto& units) {
    return std::ranges::equal(units, pipelines.front(), [&](const Unit& a, const Unit& b) {
      return a.ranks.size() == b.ranks.size() && a.ranks.size() == pipelines[0][0].ranks.size();
    });
  });
}

}  // namespace

DivisionIdeas::DivisionIdeas(const SearchContext& context, const Job& job, bool aligned)
    : context_(context),
      job_(job),
      pools_(pools_of(context)),
      costs_(context, job, pools_),
      aligned_(aligned) {
  for (std::size_t pool = 0; pool < pools_.size(); ++pool)
    for (const int rank : pools_[pool].ranks) pool_of_[rank] = static_cast<int>(pool);
  usual_.saving = savings_of(context.options, job).front();
  micro_batches_ = choose_micro_batches();
}

Unit DivisionIdeas::unit(std::vector<int> ranks, int type) const {
  Unit one;
  one.host = context_.launcher_slots[at(ranks.front())].host;
  one.type = type;
  one.pool = pool_of_.at(ranks.front());
  one.ranks = std::move(ranks);
  return one;
}

void DivisionIdeas::time(HostSlice& slice) {
  for (const int rows : micro_batches_) {
    double speed = 0;
    for (const Unit& one : slice.units) speed += 1 / layer_seconds(one, rows);
    slice.speeds.push_back(speed);
    slice.heads.push_back(head_seconds(slice.units.back(), rows) / layer_seconds(slice.units.back(), rows));
  }
}

std::vector<Layout> DivisionIdeas::layouts() {
  std::vector<Layout> result;
  for (const auto& [estimate, idea] : ideas_)
    if (auto layout = assign(idea)) result.push_back(std::move(*layout));
  return result;
}

double DivisionIdeas::layer_seconds(const Unit& unit, int rows) {
  usual_.micro_batch = rows;
  return costs_.layer_seconds(unit.pool, static_cast<int>(unit.ranks.size()), usual_);
}

double DivisionIdeas::head_seconds(const Unit& unit, int rows) {
  usual_.micro_batch = rows;
  return costs_.head_seconds(unit.pool, static_cast<int>(unit.ranks.size()), usual_);
}

std::vector<int> DivisionIdeas::choose_micro_batches() const {
  if (job_.micro_batch > 0) return {job_.micro_batch};
  if (aligned_) return {1};
  std::vector<int> sizes;
  for (int rows = 1; rows <= std::min(16, job_.replica_rows()); rows *= 2)
    if (job_.replica_rows() % rows == 0) sizes.push_back(rows);
  return sizes;
}

void DivisionIdeas::add(const std::vector<HostSlice>& slices, int count, const Assignment& assignment) {
  sizes_.assign(at(count), 0);
  for (std::size_t i = 0; i < slices.size(); ++i)
    sizes_[at(assignment[i])] += static_cast<int>(slices[i].units.size());
  for (const int size : sizes_)
    if (size > job_.model.layers || (job_.pipeline > 0 && size != job_.pipeline)) return;
  std::vector<std::vector<Unit>> pipelines;  // only built for ideas that are kept
  double gradients = 0;
  for (std::size_t k = 0; k < micro_batches_.size(); ++k) {
    const int rows = micro_batches_[k];
    ticks_.assign(at(count), 0);
    heads_.assign(at(count), 0);
    for (std::size_t i = 0; i < slices.size(); ++i) {
      ticks_[at(assignment[i])] += slices[i].speeds[k];
      heads_[at(assignment[i])] = slices[i].heads[k];
    }
    for (int i = 0; i < count; ++i) ticks_[at(i)] = (job_.model.layers + heads_[at(i)]) / ticks_[at(i)];
    if (too_slow(least_seconds(rows) + gradients)) continue;
    const std::vector<int> shares = share_rows(sizes_, ticks_, rows);
    double seconds = 0;
    for (std::size_t i = 0; i < shares.size(); ++i)
      seconds = std::max(seconds,
                         shares[i] == 0 ? Scorer::kNever : (shares[i] / rows + sizes_[i] - 1.0) * ticks_[i]);
    if (seconds == Scorer::kNever || too_slow(seconds + gradients)) continue;
    if (pipelines.empty()) {
      pipelines.resize(at(count));
      for (std::size_t i = 0; i < slices.size(); ++i) {
        auto& units = pipelines[at(assignment[i])];
        units.insert(units.end(), slices[i].units.begin(), slices[i].units.end());
      }
      if (!context_.options.uneven_replicas && !alike(pipelines)) return;
      gradients = gradient_seconds(pipelines);
    }
    seconds += gradients;
    if (seconds == Scorer::kNever || too_slow(seconds)) continue;
    ideas_.emplace(seconds, Idea{seconds, pipelines, rows});
    if (ideas_.size() > kIdeas) ideas_.erase(std::prev(ideas_.end()));
  }
}

/// The step's time if micro-batches could be divided arbitrarily: then all pipelines of sizes_ and ticks_
/// would end together.
double DivisionIdeas::least_seconds(int rows) const {
  double work = static_cast<double>(job_.replica_rows()) / rows, speed = 0;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    work += sizes_[i] - 1;
    speed += 1 / ticks_[i];
  }
  return work / speed;
}

/// The time between two micro-batches of each pipeline, with layers divided as evenly as possible.
std::vector<double> DivisionIdeas::tick_seconds(const std::vector<std::vector<Unit>>& pipelines, int rows) {
  std::vector<double> ticks;
  for (const auto& units : pipelines) {
    double speed = 0;
    for (const Unit& unit : units) speed += 1 / layer_seconds(unit, rows);
    const double head = head_seconds(units.back(), rows) / layer_seconds(units.back(), rows);
    ticks.push_back((job_.model.layers + head) / speed);
  }
  return ticks;
}

/// Gives each micro-batch to the pipeline that would end first; where replicas must be alike, all get equally
/// many.
std::vector<int> DivisionIdeas::share_rows(const std::vector<int>& sizes, const std::vector<double>& ticks,
                                           int rows) const {
  const int count = static_cast<int>(sizes.size()), all = job_.replica_rows() / rows;
  std::vector<int> shares(sizes.size(), 0);
  if (aligned_ || !context_.options.uneven_replicas) {
    if (all % count == 0) std::ranges::fill(shares, job_.replica_rows() / count);
    return shares;
  }
  if (all < count) return shares;
  double speed = 0;
  for (const double tick : ticks) speed += 1 / tick;
  int left = all;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    shares[i] = std::max(1, static_cast<int>(std::floor(0.9 * all / ticks[i] / speed)));
    left -= shares[i];
  }
  const auto end = [&](std::size_t i) { return (shares[i] + sizes[i] - 1.0) * ticks[i]; };
  for (; left > 0; --left) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < shares.size(); ++i)
      if (end(i) + ticks[i] < end(best) + ticks[best]) best = i;
    ++shares[best];
  }
  for (; left < 0; ++left) {
    std::size_t worst = 0;
    for (std::size_t i = 1; i < shares.size(); ++i)
      if (shares[i] > 1 && (shares[worst] == 1 || end(i) > end(worst))) worst = i;
    --shares[worst];
  }
  for (int& share : shares) share *= rows;
  return shares;
}

/// The time of a ring over the slowest path between hosts of different pipelines, where each host of a
/// pipeline sends what it holds.
double DivisionIdeas::gradient_seconds(const std::vector<std::vector<Unit>>& pipelines) {
  if (pipelines.size() < 2) return 0;
  double slowest = 0;
  for (std::size_t i = 0; i < pipelines.size(); ++i) {
    const auto &from = pipelines[i], &to = pipelines[(i + 1) % pipelines.size()];
    double between = 0;
    for (std::size_t u = 0; u < from.size(); u += std::max<std::size_t>(1, from.size() / 4)) {
      const Unit& other = to[u * to.size() / from.size()];
      if (other.host == from[u].host) continue;
      if (!context_.view.linked(from[u].host, other.host)) return Scorer::kNever;
      between = std::max(between, 1 / context_.view.together(
                                          from[u].host, other.host, static_cast<int>(from[u].ranks.size()),
                                          static_cast<int>(other.ranks.size()), traits(job_.framework).nics));
    }
    std::set<int> hosts;
    for (const Unit& unit : from) hosts.insert(unit.host);
    slowest = std::max(slowest, between / static_cast<double>(hosts.size()));
  }
  const auto count = static_cast<double>(pipelines.size());
  return 2 * (count - 1) / count * static_cast<double>(job_.model.parameters()) * job_.gradient_bytes() *
         slowest;
}

/// Deals layers out one by one, each to the slot that has room and would be the fastest with one more. The
/// units of a pipeline keep their order, except that types of device with large memory come first, because
/// the first stages hold the most micro-batches.
std::optional<Layout> DivisionIdeas::assign(const Idea& idea) {
  for (const Saving& saving : savings_of(context_.options, job_, idea.pipelines.size())) {
    Layout layout;
    layout.saving = saving;
    std::vector<int> sizes;
    for (const auto& units : idea.pipelines) sizes.push_back(static_cast<int>(units.size()));
    const std::vector<int> shares =
        share_rows(sizes, tick_seconds(idea.pipelines, idea.micro_batch), idea.micro_batch);
    bool fits = true;
    for (std::size_t i = 0; i < idea.pipelines.size() && fits; ++i) {
      Layout::Replica replica;
      replica.rows = shares[i];
      replica.micro_batch = idea.micro_batch;
      std::vector<Unit> units = idea.pipelines[i];
      if (context_.options.uneven_replicas && !aligned_)
        std::ranges::stable_sort(units,
                                 [&](const Unit& a, const Unit& b) { return memory_of(a) > memory_of(b); });
      Shape shape;
      shape.micro_batch = idea.micro_batch;
      shape.saving = saving;
      Shape::Kind& kind = shape.kinds.emplace_back();
      kind.micro_batches = shares[i] / idea.micro_batch;
      kind.count = static_cast<int>(idea.pipelines.size());
      for (const Unit& unit : units)
        kind.slots.push_back({unit.pool, static_cast<int>(unit.ranks.size()), 0});
      kind.micro_batches *= kind.count;
      fits = costs_.give_layers(kind, shape);
      for (std::size_t slot = 0; slot < units.size(); ++slot)
        replica.slots.push_back({units[slot].ranks, kind.slots[slot].layers});
      layout.replicas.push_back(std::move(replica));
    }
    if (fits) return layout;
  }
  return std::nullopt;
}

double DivisionIdeas::memory_of(const Unit& unit) const {
  const LauncherSlot& launcher_slot = context_.launcher_slots[at(unit.ranks.front())];
  const double bytes =
      usable_memory(job_, context_.view.host(launcher_slot.host).devices[at(launcher_slot.device)]);
  return bytes > 0 ? bytes * static_cast<double>(unit.ranks.size()) : 1e30;
}

}  // namespace tombolo::planner
