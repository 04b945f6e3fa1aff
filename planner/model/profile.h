// Measured times of a model's layers, which a short profile of the real job gives and which replace estimates
// by FLOPs. Its JSON is documented in docs/planning.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "planner/model/model.h"
#include "planner/model/recompute.h"

namespace tombolo::planner {

/// The times of one layer for one micro-batch, and the bytes that it keeps.
struct LayerTimes {
  double forward = 0, backward = 0;  ///< seconds, including what tensor-parallel ranks send each other
  double update = 0;                 ///< seconds, once per step
  std::uint64_t kept_bytes = 0;      ///< activations kept for the backward pass; 0 = not measured
};

struct Profile {
  static constexpr int kVersion = 1;
  /// The names of the kinds for what the first and the last stage have besides their layers.
  static constexpr std::string_view kEmbedding = "embedding", kHead = "head";

  struct Measurement {
    std::string device;  ///< as the cluster file names it; empty = any
    std::string kind;
    int tensor = 1;       ///< ranks that share the layer
    int micro_batch = 1;  ///< rows
    LayerTimes times;
  };
  /// A kind of layer whose sizes differ from what the model's shape gives. 0 = as the shape gives.
  struct Kind {
    std::string name;
    std::uint64_t parameters = 0;             ///< of one layer, all its ranks together
    std::uint64_t replicated_parameters = 0;  ///< of them, those that every tensor-parallel rank holds
    double output_bytes = 0;                  ///< per row, what goes to the next layer
  };

  /// The model that was measured; if it is known, a job's model must have this shape except for the number of
  /// layers.
  std::optional<Model> model;
  std::vector<std::string> layers;  ///< the kind of each; empty: every layer is of the kind "layer"
  std::vector<Kind> kinds;
  std::uint64_t overhead_bytes = 0;  ///< that a device holds under any plan: context, libraries, buffers
  /// Where ranks compute on a processor, the processor seconds that sending and receiving take from
  /// computing, for every byte that goes to another host. 0 = nothing, as on GPUs.
  double sending_seconds_per_byte = 0;
  /// What the backward passes computed again while they were measured: their times have it in them.
  Recompute recompute = Recompute::kNone;
  /// For people: what stands behind a device's name. Nothing is planned by it.
  struct Device {
    std::string name;                  ///< as in the measurements
    std::string description;           ///< what computed, in a line
    double peak_flops_per_second = 0;  ///< of products in the precision that was measured; 0 = not known
  };
  std::vector<Device> devices;
  std::vector<Measurement> measurements;

  /// The kind of a layer, by its number in the model.
  std::string_view kind_of(int layer) const noexcept;
  /// The sizes of a kind, owned by this object; null where they are what the model's shape gives.
  const Kind* find_kind(std::string_view name) const noexcept;

  /// The times of a layer of this kind for `micro_batch` rows on `tensor` ranks; nothing where neither the
  /// device nor "any" has been measured with that many ranks. They are
  ///  * those of a measured micro-batch, or on a straight line between the two next to it;
  ///  * never more than a larger micro-batch took: the same kernels run, so a longer time of the smaller one
  ///    was a disturbance;
  ///  * beyond the largest on the line through the two largest, for part of a time is launching kernels,
  ///  which
  ///    does not grow; in proportion to the rows where that would be less, where there is one only, and where
  ///    the largest took hardly longer than the one before: launches decided then, and nothing tells how the
  ///    work grows. Kept bytes are in proportion;
  ///  * below the smallest as long as the smallest.
  std::optional<LayerTimes> times(std::string_view device, std::string_view kind, int tensor,
                                  int micro_batch) const;

  /// Throws kInvalidUsage where the profile contradicts the model, naming what differs.
  void check(const Model& wanted) const;
  /// The micro-batches of layers that were measured on a device (or on any), ascending; empty = none.
  std::vector<int> micro_batches(std::string_view device) const;

  /// Throws kInvalidUsage naming file, line and field.
  static Profile load(const std::string& path);
  static Profile parse(const JsonDocument& document);
  Json to_json() const;
};

}  // namespace tombolo::planner
