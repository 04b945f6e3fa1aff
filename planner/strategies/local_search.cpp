#include "planner/strategies/local_search.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "planner/model/index.h"

namespace tombolo::planner {

namespace {

/// Gives every slot of a replica `share` times as many layers, rounded so that they are `all` together. False
/// where there are more slots than layers.
bool deal_in_chunks(Layout::Replica& replica, double share, int all) {
  if (replica.slots.size() > at(all)) return false;
  std::vector<double> wanted;
  int dealt = 0;
  for (Layout::PipelineSlot& slot : replica.slots) {
    wanted.push_back(share * slot.layers);
    slot.layers = std::max(1, static_cast<int>(wanted.back()));
    dealt += slot.layers;
  }
  // One by one to, or from, the slot that is farthest from what it should have.
  for (; dealt != all; dealt += dealt < all ? 1 : -1) {
    const int more = dealt < all ? 1 : -1;
    std::size_t best = wanted.size();
    double farthest = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double lacks = more * (wanted[i] - replica.slots[i].layers);
      if (replica.slots[i].layers + more < 1 || (best < wanted.size() && lacks <= farthest)) continue;
      best = i;
      farthest = lacks;
    }
    replica.slots[best].layers += more;
  }
  return true;
}

class LocalSearch {
 public:
  LocalSearch(const SearchContext& context, const Job& job, Layout start, double seconds, std::int64_t most)
      : context_(context),
        job_(job),
        scorer_(context, job),
        best_(std::move(start)),
        seconds_(seconds),
        most_(most) {}

  const Layout& run() {
    bool better = true;
    while (better && scorer_.simulated() < most_ && looks_ < 50 * most_) {
      better = move_layers();
      better |= move_layers_of_sets();
      better |= move_rows();
      better |= change_choices();
      better |= move_stages();
      better |= traits(job_.framework).rank_order == RankOrder::kAny ? swap_ranks() : swap_hosts();
    }
    return best_;
  }

 private:
  bool spent() const { return scorer_.simulated() >= most_ || looks_ >= 50 * most_; }

  bool take(const Layout& layout) {
    if (spent()) return false;
    ++looks_;
    const double seconds = scorer_.seconds(layout, seconds_);
    // The step must be shorter by more than rounding, or equal layouts would alternate for ever.
    if (seconds >= seconds_ * (1 - 1e-9)) return false;
    best_ = layout;
    seconds_ = seconds;
    return true;
  }

  /// Applies a change to one replica, or the same change to all where they must stay alike.
  template <typename Change>
  bool take_changed(std::size_t replica, const Change& change) {
    Layout next = best_;
    change(next.replicas[replica]);
    if (context_.options.uneven_replicas && take(next)) return true;
    if (next.replicas.size() == 1) return !context_.options.uneven_replicas && take(next);
    if (!best_.uniform()) return false;
    next = best_;
    for (Layout::Replica& one : next.replicas) change(one);
    return take(next);
  }

  bool move_layers() {
    bool any = false;
    for (std::size_t replica = 0; replica < best_.replicas.size() && !spent(); ++replica) {
      const std::size_t slots = best_.replicas[replica].slots.size();
      for (std::size_t from = 0; from < slots && !spent(); ++from)
        for (std::size_t to = 0; to < slots && !spent(); ++to)
          while (from != to && best_.replicas[replica].slots[from].layers > 1 &&
                 take_changed(replica, [&](Layout::Replica& one) {
                   --one.slots[from].layers;
                   ++one.slots[to].layers;
                 }))
            any = true;
      if (!context_.options.uneven_replicas) break;
    }
    return any;
  }

  /// The sets of a pipeline's slots that change together: those of as many layers, the two ends, and all
  /// between them. Of the first the single ones are left out, which exchange layers one by one.
  std::vector<std::vector<std::size_t>> sets_of_slots() const {
    const auto& slots = best_.replicas.front().slots;
    std::map<int, std::vector<std::size_t>> by_layers;
    for (std::size_t slot = 0; slot < slots.size(); ++slot) by_layers[slots[slot].layers].push_back(slot);
    std::vector<std::vector<std::size_t>> sets;
    for (auto& [layers, its] : by_layers) sets.push_back(std::move(its));
    if (slots.size() < 3) return sets;
    std::vector<std::size_t> between(slots.size() - 2);
    std::iota(between.begin(), between.end(), std::size_t{1});
    sets.push_back({0, slots.size() - 1});
    sets.push_back(std::move(between));
    return sets;
  }

  /// Gives each slot of one set a layer more, or less, and takes those from, or gives them to, the slots of
  /// another as evenly as that goes. A step that waits for two stages gets no shorter by a layer of one of
  /// them, and stages between the ends that must have equally many change together or not at all.
  bool move_layers_of_sets() {
    bool any = false;
    if (!best_.uniform()) return false;
    const auto sets = sets_of_slots();
    for (const auto& each : sets)
      for (const auto& evenly : sets)
        for (const int more : {1, -1}) {
          if (std::ranges::find_first_of(each, evenly) != each.end()) continue;
          if (each.size() == 1 && evenly.size() == 1) continue;
          while (!spent()) {
            Layout next = best_;
            bool possible = true;
            for (Layout::Replica& replica : next.replicas) {
              for (const std::size_t slot : each) replica.slots[slot].layers += more;
              for (std::size_t i = 0; i < each.size(); ++i)
                replica.slots[evenly[i % evenly.size()]].layers -= more;
              possible &=
                  std::ranges::all_of(replica.slots, [](const auto& slot) { return slot.layers > 0; });
            }
            if (!possible || !take(next)) break;
            any = true;
          }
        }
    return any;
  }

  bool move_rows() {
    if (!context_.options.uneven_replicas) return false;
    bool any = false;
    for (std::size_t from = 0; from < best_.replicas.size() && !spent(); ++from)
      for (std::size_t to = 0; to < best_.replicas.size() && !spent(); ++to) {
        if (from == to) continue;
        for (bool better = true; better && !spent();) {
          Layout next = best_;
          const int rows = std::max(next.replicas[from].micro_batch, next.replicas[to].micro_batch);
          next.replicas[from].rows -= rows;
          next.replicas[to].rows += rows;
          better = take(next);
          any |= better;
        }
      }
    return any;
  }

  bool change_choices() {
    bool any = false;
    if (job_.micro_batch == 0)
      for (std::size_t replica = 0; replica < best_.replicas.size() && !spent(); ++replica)
        for (const bool half : {true, false})
          while (take_changed(replica, [&](Layout::Replica& one) {
            one.micro_batch = half ? one.micro_batch / 2 : one.micro_batch * 2;
          }))
            any = true;
    std::vector<std::pair<Schedule, int>> schedules = context_.options.schedules;
    if (schedules.empty()) schedules = {{job_.schedule, job_.chunks}};
    for (const auto& [schedule, chunks] : schedules)
      for (const Saving& saving : savings_of(context_.options, job_, best_.replicas.size())) {
        Layout next = best_;
        next.schedule = schedule;
        next.saving = saving;
        if (chunks != next.chunks) {
          if (job_.model.layers % chunks != 0) continue;
          bool possible = true;
          for (Layout::Replica& replica : next.replicas)
            possible &= deal_in_chunks(replica, 1.0 * next.chunks / chunks, job_.model.layers / chunks);
          if (!possible) continue;
          next.chunks = chunks;
        }
        any |= take(next);
      }
    return any;
  }

  /// Whether two slots take the same part in a pipeline, so that they can change places with little effect.
  bool alike(const Layout::PipelineSlot& one, const Layout::PipelineSlot& other) const {
    const auto same_place = [&](int left, int right) {
      const auto& first = context_.launcher_slots[at(left)];
      const auto& second = context_.launcher_slots[at(right)];
      const topology::Host& host = context_.view.host(first.host);
      const topology::Host& other_host = context_.view.host(second.host);
      const topology::Device& device = host.devices[at(first.device)];
      const topology::Device& other_device = other_host.devices[at(second.device)];
      return host.cluster == other_host.cluster && host.nics.size() == other_host.nics.size() &&
             device.name == other_device.name && device.flops_per_second == other_device.flops_per_second &&
             device.memory_bytes == other_device.memory_bytes;
    };
    return one.layers == other.layers && std::ranges::equal(one.ranks, other.ranks, same_place);
  }

  /// Moves whole stages, with their layers and in all replicas, to another place in the pipeline: one that
  /// goes to a cluster and comes back crosses twice, and no exchange of two hosts mends that.
  bool move_stages() {
    bool any = false;
    const std::size_t slots = best_.replicas.front().slots.size();
    if (!best_.uniform()) return false;
    for (std::size_t from = 0; from < slots && !spent(); ++from)
      for (std::size_t to = 0; to < slots && !spent(); ++to) {
        const auto [first, last] = std::minmax(from, to);
        const bool same = std::ranges::all_of(
            best_.replicas, [&, begin = first, end = last](const Layout::Replica& replica) {
              return std::all_of(replica.slots.begin() + static_cast<std::ptrdiff_t>(begin),
                                 replica.slots.begin() + static_cast<std::ptrdiff_t>(end) + 1,
                                 [&](const auto& slot) { return alike(slot, replica.slots[from]); });
            });
        if (same) continue;
        Layout next = best_;
        for (Layout::Replica& replica : next.replicas) {
          Layout::PipelineSlot moved = std::move(replica.slots[from]);
          replica.slots.erase(replica.slots.begin() + static_cast<std::ptrdiff_t>(from));
          replica.slots.insert(replica.slots.begin() + static_cast<std::ptrdiff_t>(to), std::move(moved));
        }
        any |= take(next);
      }
    return any;
  }

  /// Exchanges ranks of different hosts; within a host of alike devices that would change nothing.
  bool swap_ranks() {
    bool any = false;
    std::vector<int*> slots;
    const auto collect = [&](Layout& layout) {
      slots.clear();
      for (Layout::Replica& replica : layout.replicas)
        for (Layout::PipelineSlot& slot : replica.slots)
          if (slot.ranks.size() == 1) slots.push_back(&slot.ranks.front());
    };
    Layout next = best_;
    collect(next);
    for (std::size_t i = 0; i < slots.size() && !spent(); ++i)
      for (std::size_t j = i + 1; j < slots.size() && !spent(); ++j) {
        if (context_.launcher_slots[at(*slots[i])].host == context_.launcher_slots[at(*slots[j])].host)
          continue;
        std::swap(*slots[i], *slots[j]);
        if (take(next)) {
          any = true;
        } else {
          std::swap(*slots[i], *slots[j]);
        }
      }
    return any | swap_groups();
  }

  /// Exchanges whole groups of ranks that share layers, of equal size.
  bool swap_groups() {
    bool any = false;
    Layout next = best_;
    std::vector<std::vector<int>*> groups;
    for (Layout::Replica& replica : next.replicas)
      for (Layout::PipelineSlot& slot : replica.slots)
        if (slot.ranks.size() > 1) groups.push_back(&slot.ranks);
    for (std::size_t i = 0; i < groups.size() && !spent(); ++i)
      for (std::size_t j = i + 1; j < groups.size() && !spent(); ++j) {
        if (groups[i]->size() != groups[j]->size()) continue;
        if (context_.launcher_slots[at(groups[i]->front())].host ==
            context_.launcher_slots[at(groups[j]->front())].host)
          continue;
        groups[i]->swap(*groups[j]);
        if (take(next))
          any = true;
        else
          groups[i]->swap(*groups[j]);
      }
    return any;
  }

  /// Exchanges the places of two hosts with equally many ranks, for frameworks that number a node's ranks in
  /// a row.
  bool swap_hosts() {
    bool any = false;
    std::map<int, std::vector<int>> ranks_of;
    for (const Layout::Replica& replica : best_.replicas)
      for (const Layout::PipelineSlot& slot : replica.slots)
        for (const int rank : slot.ranks) ranks_of[context_.launcher_slots[at(rank)].host].push_back(rank);
    for (auto& [host, ranks] : ranks_of) std::ranges::sort(ranks);
    for (auto one = ranks_of.begin(); one != ranks_of.end() && !spent(); ++one)
      for (auto other = std::next(one); other != ranks_of.end() && !spent(); ++other) {
        if (one->second.size() != other->second.size()) continue;
        std::map<int, int> becomes;
        for (std::size_t i = 0; i < one->second.size(); ++i) {
          becomes[one->second[i]] = other->second[i];
          becomes[other->second[i]] = one->second[i];
        }
        Layout next = best_;
        for (Layout::Replica& replica : next.replicas)
          for (Layout::PipelineSlot& slot : replica.slots)
            for (int& rank : slot.ranks)
              if (const auto found = becomes.find(rank); found != becomes.end()) rank = found->second;
        any |= take(next);
      }
    return any;
  }

  const SearchContext& context_;
  const Job& job_;
  Scorer scorer_;
  Layout best_;
  double seconds_;
  std::int64_t most_, looks_ = 0;
};

}  // namespace

Plan improved_plan(const SearchContext& context, const Job& job, const Plan& start, std::int64_t most) {
  const Layout from = layout_of(context, start);
  const Layout to = LocalSearch(context, job, from, start.prediction.step_seconds, most).run();
  if (to == from) return start;
  Plan plan = Scorer(context, job).plan(to);
  plan.strategy = start.strategy;
  plan.notes = start.notes;
  return plan;
}

}  // namespace tombolo::planner
