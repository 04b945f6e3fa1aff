#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "planner/cost/reserve.h"
#include "planner/model/index.h"
#include "planner/search/shape_search.h"

namespace tombolo::planner {

namespace {

/// Hosts with alike devices, and equally many of them.
struct HostClass {
  int type = 0, devices = 0;
  double memory = 0;  // of a device
  std::vector<int> pools;
};

/// The part of every host of a class that one replica takes in its group: `slots` of `degree` devices each.
struct Share {
  int degree = 1, slots = 0;
};

constexpr std::size_t kClasses = 6;  // with more there are too many combinations

class Columns {
 public:
  Columns(const SearchContext& context, const Job& job, const std::vector<Pool>& pools, Estimator& estimator,
          std::size_t most)
      : context_(context), job_(job), pools_(pools), estimator_(estimator), most_(most) {
    std::map<std::pair<int, int>, std::size_t> known;
    for (std::size_t pool = 0; pool < pools.size(); ++pool) {
      const auto [entry, added] = known.try_emplace({pools[pool].type, pools[pool].size()}, classes_.size());
      if (added) {
        const LauncherSlot& launcher_slot = context.launcher_slots[at(pools[pool].ranks.front())];
        const double bytes =
            usable_memory(job, context.view.host(launcher_slot.host).devices[at(launcher_slot.device)]);
        classes_.push_back({pools[pool].type, pools[pool].size(), bytes > 0 ? bytes : 1e30, {}});
      }
      classes_[entry->second].pools.push_back(static_cast<int>(pool));
    }
    // Large memory comes first, because the first stages hold the most micro-batches.
    std::ranges::stable_sort(classes_, [](const auto& a, const auto& b) { return a.memory > b.memory; });
    for (int rows = 1; rows <= std::min(16, job.replica_rows()); rows *= 2)
      if (job.replica_rows() % rows == 0 && job.micro_batch == 0) micro_batches_.push_back(rows);
    if (job.micro_batch > 0) micro_batches_ = {job.micro_batch};
  }

  std::vector<Ranked> search() {
    if (classes_.size() > kClasses) return {};
    for (const int groups : numbers_of_groups())
      for (int replicas = 1; replicas <= most_devices(); ++replicas)
        if (groups * replicas <= job_.replica_rows() && (job_.data == 0 || job_.data == groups * replicas))
          for (const int rows : micro_batches_) {
            groups_ = groups;
            replicas_ = replicas;
            rows_ = rows;
            shares_ = {};
            combine(0, 0, 0, 0);
          }
    evaluate();
    return std::move(found_);
  }

 private:
  struct Idea {
    double bound = 0;
    int groups = 1, replicas = 1, rows = 1;
    std::array<Share, kClasses> shares;
  };

  std::vector<int> numbers_of_groups() const {
    std::set<int> numbers;
    int most = 0;
    for (const HostClass& one : classes_) most = std::max(most, static_cast<int>(one.pools.size()));
    for (int groups = 1; groups <= most; ++groups) {
      const auto divides = [&](const HostClass& one) {
        return static_cast<int>(one.pools.size()) % groups == 0;
      };
      if (context_.options.may_leave_out ? std::ranges::any_of(classes_, divides)
                                         : std::ranges::all_of(classes_, divides))
        numbers.insert(groups);
    }
    return {numbers.begin(), numbers.end()};
  }

  int most_devices() const {
    int most = 0;
    for (const HostClass& one : classes_) most = std::max(most, one.devices);
    return most;
  }

  /// Tries the shares of the classes from `next` on. The classes before have `slots` slots that compute
  /// `speed` layers per second in all, and the slowest takes `longest` for one layer.
  void combine(std::size_t next, int slots, double speed, double longest) {
    if (slots > job_.model.layers) return;
    if (next == classes_.size()) {
      if (slots == 0 || (job_.pipeline > 0 && slots != job_.pipeline)) return;
      const double micro_batches =
          std::ceil(static_cast<double>(job_.replica_rows()) / rows_ / groups_ / replicas_);
      const double tick = std::max(longest, job_.model.layers / speed);
      ideas_.push_back({(micro_batches + slots - 1) * tick, groups_, replicas_, rows_, shares_});
      return;
    }
    const HostClass& one = classes_[next];
    const int hosts = static_cast<int>(one.pools.size()) / groups_;
    Shape shape;
    shape.micro_batch = rows_;
    shape.saving = savings_of(context_.options, job_).front();
    for (int degree = 1; hosts > 0 && degree * replicas_ <= one.devices; degree *= 2) {
      const double seconds = estimator_.costs().layer_seconds(one.pools.front(), degree, shape);
      if (seconds == Scorer::kNever) continue;
      for (int count = 1; count * degree * replicas_ <= one.devices; ++count) {
        if (!context_.options.may_leave_out && count * degree * replicas_ != one.devices) continue;
        shares_[next] = {degree, count};
        combine(next + 1, slots + hosts * count, speed + hosts * count / seconds, std::max(longest, seconds));
      }
    }
    shares_[next] = {};
    if (context_.options.may_leave_out) combine(next + 1, slots, speed, longest);
  }

  Shape shape_of(const Idea& idea, const Saving& saving) const {
    Shape shape;
    shape.micro_batch = idea.rows;
    shape.saving = saving;
    for (int group = 0; group < idea.groups; ++group) {
      Shape::Kind& kind = shape.kinds.emplace_back();
      kind.count = idea.replicas;
      kind.micro_batches = std::max(1, job_.replica_rows() / idea.rows / idea.groups);
      for (std::size_t i = 0; i < classes_.size(); ++i) {
        const int hosts = static_cast<int>(classes_[i].pools.size()) / idea.groups;
        for (int host = 0; host < hosts; ++host)
          for (int slot = 0; slot < idea.shares[i].slots; ++slot)
            kind.slots.push_back({classes_[i].pools[at(group * hosts + host)], idea.shares[i].degree, 0});
      }
    }
    return shape;
  }

  void evaluate() {
    constexpr std::size_t kMostShapes = 600;
    std::vector<std::pair<double, std::size_t>> order;
    order.reserve(ideas_.size());
    for (std::size_t i = 0; i < ideas_.size(); ++i) order.emplace_back(ideas_[i].bound, i);
    std::ranges::sort(order);
    std::size_t looked_at = 0;
    for (const auto& [bound, number] : order) {
      const Idea& idea = ideas_[number];
      if (looked_at >= kMostShapes || (found_.size() >= most_ && idea.bound >= found_.back().seconds)) break;
      for (const Saving& saving : savings_of(context_.options, job_, at(idea.groups) * at(idea.replicas))) {
        Shape shape = shape_of(idea, saving);
        const auto gives = [&](Shape::Kind& kind) { return estimator_.costs().give_layers(kind, shape); };
        if (!std::ranges::all_of(shape.kinds, gives) || !estimator_.costs().share_micro_batches(shape))
          continue;
        ++looked_at;
        const double seconds = estimator_.seconds(shape);
        if (seconds == Scorer::kNever) continue;
        const auto after = std::ranges::upper_bound(found_, seconds, {}, &Ranked::seconds);
        found_.insert(after, {seconds, std::move(shape)});
        if (found_.size() > most_) found_.pop_back();
      }
    }
  }

  const SearchContext& context_;
  const Job& job_;
  const std::vector<Pool>& pools_;
  Estimator& estimator_;
  std::size_t most_;
  std::vector<HostClass> classes_;
  std::vector<int> micro_batches_;
  int groups_ = 1, replicas_ = 1, rows_ = 1;
  std::array<Share, kClasses> shares_;  // by class
  std::vector<Idea> ideas_;
  std::vector<Ranked> found_;
};

}  // namespace

std::vector<Ranked> column_shapes(const SearchContext& context, const Job& job,
                                  const std::vector<Pool>& pools, Estimator& estimator, std::size_t most) {
  return Columns(context, job, pools, estimator, most).search();
}

}  // namespace tombolo::planner
