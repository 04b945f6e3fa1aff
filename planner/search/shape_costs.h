// What the slots of a shape cost and hold, and how layers and rows are best dealt out to them.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "planner/cost/costs.h"
#include "planner/search/shape.h"

namespace tombolo::planner {

/// Remembers what it has computed; not thread-safe. Context, job and pools must outlive it.
class ShapeCosts {
 public:
  /// What a micro-batch costs on one slot.
  struct Cost {
    PassSeconds layer, head;  ///< head: the output projection and the loss
    bool possible = true;     ///< false: so many devices cannot share layers there
  };

  ShapeCosts(const SearchContext& context, const Job& job, const std::vector<Pool>& pools);

  /// The cost on a slot of `degree` devices of the pool.
  const Cost& of(int pool, int degree, const Shape& shape);
  /// Seconds of one layer both ways; Scorer::kNever where the devices cannot share layers.
  double layer_seconds(int pool, int degree, const Shape& shape);
  /// As layer_seconds(), of the output projection and the loss.
  double head_seconds(int pool, int degree, const Shape& shape);
  /// Seconds of a micro-batch on the slowest slot of a pipeline.
  double tick(const Shape::Kind& kind, const Shape& shape);
  /// Layers that fit on that slot: memory grows in proportion to them.
  int room(const Shape::Kind& kind, int slot, const Shape& shape);
  /// Deals the layers out one by one, each to the slot that would be the fastest with one more and has room.
  /// False where there is no room.
  bool give_layers(Shape::Kind& kind, const Shape& shape);
  /// Deals the micro-batches out one by one, each to the kind that would end first; where replicas must be
  /// alike, equal shares. False where that does not divide.
  bool share_micro_batches(Shape& shape);

 private:
  const SearchContext& context_;
  const Job& job_;
  const std::vector<Pool>& pools_;
  std::map<std::tuple<int, int, int, Recompute>, Cost> costs_;
  std::map<std::tuple<int, int, int, bool, bool, int, int, Saving>, int> rooms_;
};

}  // namespace tombolo::planner
