#include <algorithm>
#include <cmath>
#include <random>

#include "planner/model/index.h"
#include "planner/search/shape_search.h"

namespace tombolo::planner {

namespace {

class ShapeAnnealer {
 public:
  ShapeAnnealer(const SearchContext& context, const Job& job, const std::vector<Pool>& pools,
                Estimator& estimator, std::uint64_t seed)
      : context_(context), job_(job), pools_(pools), estimator_(estimator), random_(seed) {
    savings_ = savings_of(context.options, job);
  }

  Ranked run(const Ranked& start, std::int64_t operations) {
    // The temperatures accept a change for the worse by a hundredth at first, and by a ten-thousandth at the
    // end.
    constexpr double kHot = 0.02, kCold = 2e-4;
    Ranked now = start, best = start;
    const std::int64_t begin = estimator_.operations();
    for (std::int64_t spent = 0; spent < operations; spent = estimator_.operations() - begin) {
      const double temperature =
          kHot * std::pow(kCold / kHot, static_cast<double>(spent) / static_cast<double>(operations));
      Ranked next = now;
      estimator_.count(kCheapest);
      if (!change(next.shape) || !complete(next.shape)) continue;
      next.seconds = estimator_.seconds(next.shape);
      if (next.seconds == Scorer::kNever) continue;
      const double loss = next.seconds / now.seconds - 1;
      if (loss > 0 && uniform() >= std::exp(-loss / temperature)) continue;
      now = std::move(next);
      if (now.seconds < best.seconds * (1 - 1e-9)) best = now;
    }
    return best;
  }

 private:
  using Kind = Shape::Kind;
  using PipelineSlot = Shape::PipelineSlot;
  /// The work that is counted for a change without effect, so that the search ends even where none is
  /// possible.
  static constexpr std::int64_t kCheapest = 20;

  int below(std::size_t count) { return static_cast<int>(random_() % count); }
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  /// Whether no device is taken twice and, unless that is allowed, none is left out.
  bool complete(const Shape& shape) const {
    return std::ranges::all_of(idle_devices(shape, pools_), [&](int idle) {
      return idle == 0 || (idle > 0 && context_.options.may_leave_out);
    });
  }

  /// Makes a random change. False where nothing could be changed.
  bool change(Shape& shape) {
    switch (below(12)) {
      case 0:
      case 1:
      case 2:
        return shift_layer(shape);
      case 3:
        return reshape(shape, [&](Kind& kind) { return remove_place(kind); });
      case 4:
        return reshape(shape, [&](Kind& kind) { return repeat_place(kind); });
      case 5:
        return reshape(shape, [&](Kind& kind) { return change_degree(kind); });
      case 6:
        return reshape(shape, [&](Kind& kind) { return reorder(kind); });
      case 7:
        return insert_idle(shape);
      case 8:
        return move_place(shape);
      case 9:
        return change_choice(shape);
      case 10:
        return change_count(shape);
      default:
        return below(2) == 0 ? shift_micro_batch(shape) : take_apart(shape);
    }
  }

  /// Applies a change to one kind, or to all kinds whose slots have the same types, degrees and layers.
  template <typename Change>
  bool for_alike(Shape& shape, const Change& make) {
    const std::size_t chosen = at(below(shape.kinds.size()));
    const Kind model = shape.kinds[chosen];
    const bool together = !context_.options.uneven_replicas || below(4) > 0;
    const auto state = random_;
    for (std::size_t i = 0; i < shape.kinds.size(); ++i) {
      Kind& kind = shape.kinds[i];
      if (i != chosen && !(together && alike(kind, model))) continue;
      random_ = state;  // each kind gets the same change
      if (!make(kind)) return false;
    }
    return true;
  }

  bool alike(const Kind& one, const Kind& other) const {
    return std::ranges::equal(one.slots, other.slots, [&](const PipelineSlot& a, const PipelineSlot& b) {
      return a.degree == b.degree && a.layers == b.layers &&
             pools_[at(a.pool)].type == pools_[at(b.pool)].type;
    });
  }

  /// Applies a change, and deals layers and rows out anew.
  template <typename Change>
  bool reshape(Shape& shape, const Change& make) {
    return for_alike(shape,
                     [&](Kind& kind) { return make(kind) && estimator_.costs().give_layers(kind, shape); }) &&
           estimator_.costs().share_micro_batches(shape);
  }

  bool shift_layer(Shape& shape) {
    return for_alike(shape, [&](Kind& kind) {
      const std::size_t from = at(below(kind.slots.size())), to = at(below(kind.slots.size()));
      if (from == to || kind.slots[from].layers < 2) return false;
      --kind.slots[from].layers;
      ++kind.slots[to].layers;
      return true;
    });
  }

  bool remove_place(Kind& kind) {
    if (kind.slots.size() < 2) return false;
    kind.slots.erase(kind.slots.begin() + below(kind.slots.size()));
    return true;
  }

  /// Adds a slot that is like another, on the same host.
  bool repeat_place(Kind& kind) {
    const auto slot = kind.slots.begin() + below(kind.slots.size());
    kind.slots.insert(slot, PipelineSlot(*slot));
    return true;
  }

  /// Joins two neighbouring slots of one host into one with the devices of both, or divides one into two.
  bool change_degree(Kind& kind) {
    const std::size_t one = at(below(kind.slots.size()));
    if (below(2) == 0) {
      if (kind.slots[one].degree % 2 != 0) return false;
      kind.slots[one].degree /= 2;
      kind.slots.insert(kind.slots.begin() + static_cast<std::ptrdiff_t>(one), PipelineSlot(kind.slots[one]));
      return true;
    }
    if (one + 1 == kind.slots.size() || kind.slots[one].pool != kind.slots[one + 1].pool ||
        kind.slots[one].degree != kind.slots[one + 1].degree)
      return false;
    kind.slots[one].degree *= 2;
    kind.slots.erase(kind.slots.begin() + static_cast<std::ptrdiff_t>(one) + 1);
    return true;
  }

  /// Exchanges two slots, or everything that is on two hosts, or moves one slot.
  bool reorder(Kind& kind) {
    auto& slots = kind.slots;
    if (slots.size() < 2) return false;
    const std::size_t one = at(below(slots.size())), other = at(below(slots.size()));
    if (slots[one].pool == slots[other].pool) return false;
    switch (below(3)) {
      case 0:
        std::swap(slots[one], slots[other]);
        return true;
      case 1: {
        const PipelineSlot moved = slots[one];
        slots.erase(slots.begin() + static_cast<std::ptrdiff_t>(one));
        slots.insert(slots.begin() + static_cast<std::ptrdiff_t>(std::min(other, slots.size())), moved);
        return true;
      }
      default: {
        // The slots of one pool stay together: the slots of two pools exchange their positions.
        std::vector<int> order;
        for (const PipelineSlot& slot : slots)
          if (std::ranges::find(order, slot.pool) == order.end()) order.push_back(slot.pool);
        std::swap(*std::ranges::find(order, slots[one].pool), *std::ranges::find(order, slots[other].pool));
        std::ranges::stable_sort(slots, {}, [&](const PipelineSlot& slot) {
          return std::ranges::find(order, slot.pool) - order.begin();
        });
        return true;
      }
    }
  }

  /// Inserts a slot next to one of the same host, where there is one.
  void insert_beside(Kind& kind, const PipelineSlot& added) {
    const auto same =
        std::ranges::find_if(kind.slots, [&](const PipelineSlot& slot) { return slot.pool == added.pool; });
    kind.slots.insert(same != kind.slots.end() ? same : kind.slots.begin() + below(kind.slots.size() + 1),
                      added);
  }

  /// Adds a slot on devices that were left out.
  bool insert_idle(Shape& shape) {
    const std::vector<int> idle = idle_devices(shape, pools_);
    const int pool = below(pools_.size());
    if (idle[at(pool)] < 1) return false;
    Kind& kind = shape.kinds[at(below(shape.kinds.size()))];
    int degree = 1;
    while (degree * 2 * kind.count <= idle[at(pool)] && below(2) == 0) degree *= 2;
    if (degree * kind.count > idle[at(pool)]) return false;
    insert_beside(kind, {pool, degree, 1});
    return estimator_.costs().give_layers(kind, shape) && estimator_.costs().share_micro_batches(shape);
  }

  /// Moves a slot from one kind to another.
  bool move_place(Shape& shape) {
    const std::size_t from = at(below(shape.kinds.size())), to = at(below(shape.kinds.size()));
    Kind &source = shape.kinds[from], &target = shape.kinds[to];
    if (from == to || source.slots.size() < 2 || source.count != target.count) return false;
    const int slot = below(source.slots.size());
    const PipelineSlot moved = source.slots[at(slot)];
    source.slots.erase(source.slots.begin() + slot);
    insert_beside(target, moved);
    return estimator_.costs().give_layers(source, shape) && estimator_.costs().give_layers(target, shape) &&
           estimator_.costs().share_micro_batches(shape);
  }

  bool deal_again(Shape& shape) {
    return std::ranges::all_of(shape.kinds,
                               [&](Kind& kind) { return estimator_.costs().give_layers(kind, shape); }) &&
           estimator_.costs().share_micro_batches(shape);
  }

  bool change_choice(Shape& shape) {
    if (below(2) == 0) {
      shape.saving = savings_[at(below(savings_.size()))];
    } else {
      const bool half = below(2) == 0;
      if (job_.micro_batch > 0 || (half && shape.micro_batch % 2 != 0)) return false;
      shape.micro_batch = half ? shape.micro_batch / 2 : shape.micro_batch * 2;
      if (shape.micro_batch > job_.replica_rows()) return false;
    }
    // Rows are dealt first, because the number of micro-batches under way decides how much memory is left for
    // layers.
    return estimator_.costs().share_micro_batches(shape) && deal_again(shape);
  }

  /// Adds or removes one replica of a kind.
  bool change_count(Shape& shape) {
    Kind& kind = shape.kinds[at(below(shape.kinds.size()))];
    kind.count += below(2) == 0 ? 1 : -1;
    return kind.count > 0 && estimator_.costs().share_micro_batches(shape);
  }

  bool shift_micro_batch(Shape& shape) {
    if (!context_.options.uneven_replicas) return false;
    const std::size_t from = at(below(shape.kinds.size())), to = at(below(shape.kinds.size()));
    Kind &source = shape.kinds[from], &target = shape.kinds[to];
    if (from == to || source.micro_batches <= source.count) return false;
    --source.micro_batches;
    ++target.micro_batches;
    return true;
  }

  /// Makes one replica of a kind a kind of its own, which can then change alone.
  bool take_apart(Shape& shape) {
    const std::size_t chosen = at(below(shape.kinds.size()));
    if (shape.kinds[chosen].count < 2) return false;
    Kind one = shape.kinds[chosen];
    one.count = 1;
    --shape.kinds[chosen].count;
    shape.kinds.push_back(std::move(one));
    return estimator_.costs().share_micro_batches(shape);
  }

  const SearchContext& context_;
  const Job& job_;
  const std::vector<Pool>& pools_;
  Estimator& estimator_;
  std::mt19937_64 random_;
  std::vector<Saving> savings_;
};

}  // namespace

Ranked improved_shape(const SearchContext& context, const Job& job, const std::vector<Pool>& pools,
                      Estimator& estimator, const Ranked& start, std::int64_t operations,
                      std::uint64_t seed) {
  return ShapeAnnealer(context, job, pools, estimator, seed).run(start, operations);
}

}  // namespace tombolo::planner
