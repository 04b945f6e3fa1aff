// A shape: a layout in which devices that are alike are interchangeable. A search changes shapes and an
// estimate scores them, thousands of times a second.
#pragma once

#include <vector>

#include "planner/search/layout.h"

namespace tombolo::planner {

/// Devices of one host that are alike.
struct Pool {
  int host = 0;
  int type = 0;            ///< equal for pools whose devices, and the links between these, are alike
  std::vector<int> ranks;  ///< launcher ranks

  int size() const noexcept { return static_cast<int>(ranks.size()); }
};

/// The pools of all hosts, in the cluster file's order; a host has one for each kind of its devices.
std::vector<Pool> pools_of(const SearchContext& context);

struct Shape {
  struct PipelineSlot {
    int pool = 0;
    int degree = 1;  ///< devices of the pool that share the layers
    int layers = 0;
    friend auto operator<=>(const PipelineSlot&, const PipelineSlot&) = default;
  };
  /// Replicas that are alike.
  struct Kind {
    std::vector<PipelineSlot> slots;  ///< in the order of the layers
    int count = 1;
    int micro_batches = 0;  ///< of all `count` replicas together, which divide them as evenly as possible
    /// The micro-batches of the replica that has most.
    int micro_batches_of_one() const noexcept { return (micro_batches + count - 1) / count; }
    friend auto operator<=>(const Kind&, const Kind&) = default;
  };
  std::vector<Kind> kinds;
  int micro_batch = 1;  ///< rows
  Saving saving;
  friend auto operator<=>(const Shape&, const Shape&) = default;

  int replicas() const noexcept;
};

/// The number of devices of each pool that the shape leaves idle; negative where it takes more than there
/// are.
std::vector<int> idle_devices(const Shape& shape, const std::vector<Pool>& pools);

/// Assigns the pools' ranks to the slots in order. The shape must not take more than there are.
Layout layout_of(const Shape& shape, const std::vector<Pool>& pools);

/// The shape of a layout: replicas that have become alike are one kind again. The layout's micro-batches must
/// be of one size.
Shape shape_of(const Layout& layout, const std::vector<Pool>& pools);

}  // namespace tombolo::planner
