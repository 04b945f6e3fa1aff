// The times and the memory of the slots of a shape, and the best way to deal layers and rows out to them.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "planner/cost/costs.h"
#include "planner/search/shape.h"

namespace tombolo::planner {

/// Remembers what it has computed; not thread-safe. `context`, `job` and `pools` must outlive it.
class ShapeCosts {
 public:
  /// The cost of a micro-batch on one slot.
  struct Cost {
    PassSeconds layer, head;  ///< head: the output projection and the loss
    bool possible = true;     ///< false: so many devices cannot share layers there
  };

  ShapeCosts(const SearchContext& context, const Job& job, const std::vector<Pool>& pools);

  /// The cost on a slot of `degree` devices of the pool.
  const Cost& of(int pool, int degree, const Shape& shape) {
    return of(pool, degree, shape.micro_batch, shape.saving);
  }
  const Cost& of(int pool, int degree, int micro_batch, const Saving& saving);
  /// Of each slot's layers, how many the shape's plan will compute again as a whole (layers_again.h): the
  /// first so many. As many as the model has where all are.
  int layers_again(const Shape& shape);
  /// Seconds of one layer, forward and backward; Scorer::kNever where the devices cannot share layers.
  double layer_seconds(int pool, int degree, const Shape& shape);
  /// The same for the output projection and the loss.
  double head_seconds(int pool, int degree, const Shape& shape);
  /// Seconds of a micro-batch on the slowest slot of a pipeline.
  double tick(const Shape::Kind& kind, const Shape& shape);
  /// How many layers fit on that slot: memory grows in proportion to them.
  int room(const Shape::Kind& kind, int slot, const Shape& shape);
  /// Deals the layers out one by one, each to the slot that has room and would be the fastest with one more.
  /// False where there is no room.
  bool give_layers(Shape::Kind& kind, const Shape& shape);
  /// Deals the micro-batches out one by one, each to the kind that would end first; where replicas must be
  /// alike, all get equal shares. False where that is not divisible.
  bool share_micro_batches(Shape& shape);

 private:
  /// The memory of a slot's devices, bytes: what there is (0 = unknown), what one layer takes with all else,
  /// and each more. Negative: not looked at. `kept_each` is what each takes where nothing is computed again.
  struct Room {
    double available = 0, alone = 0, each = -1, kept_each = -1;
  };
  Room& room_of(const Shape::Kind& kind, int slot, const Shape& shape, const Saving& saving, bool each_too);

  const SearchContext& context_;
  const Job& job_;
  const std::vector<Pool>& pools_;
  std::map<std::tuple<int, int, int, Recompute, int>, Cost> costs_;
  std::map<std::tuple<int, int, int, bool, bool, int, int, Saving>, Room> rooms_;
};

}  // namespace tombolo::planner
