// Measured times of a model's layers, in place of estimates by FLOPs: what a short profile of the real job
// gives. Its JSON is documented in docs/planning.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "planner/model/model.h"

namespace tombolo::planner {

/// What one layer takes for one micro-batch.
struct LayerTimes {
  double forward = 0, backward = 0;  ///< seconds, what tensor-parallel ranks send each other included
  double update = 0;                 ///< seconds, once per step
  std::uint64_t kept_bytes = 0;      ///< activations kept for the backward pass; 0 = not measured
};

struct Profile {
  static constexpr int kVersion = 1;
  /// Kinds of these names are what the first and the last stage have besides their layers.
  static constexpr std::string_view kEmbedding = "embedding", kHead = "head";

  struct Measurement {
    std::string device;  ///< as the cluster file names it; empty = any
    std::string kind;
    int tensor = 1;       ///< ranks that share the layer
    int micro_batch = 1;  ///< rows
    LayerTimes times;
  };
  /// A kind of layer whose size is not what the model's shape says. 0 = it is.
  struct Kind {
    std::string name;
    std::uint64_t parameters = 0;             ///< of one layer, all its ranks together
    std::uint64_t replicated_parameters = 0;  ///< of them, those that every tensor-parallel rank holds
    double output_bytes = 0;                  ///< per row, what goes to the next layer
  };

  /// What was measured; where it is known, a job's model must be of this shape but for its layers' number.
  std::optional<Model> model;
  std::vector<std::string> layers;  ///< the kind of each; empty: every layer is of the kind "layer"
  std::vector<Kind> kinds;
  std::uint64_t overhead_bytes = 0;  ///< that a device holds whatever the plan: context, libraries, buffers
  /// Processor seconds that sending and receiving take for every byte that goes to another host, where ranks
  /// compute on a processor: they are missing there. 0 = nothing, as on GPUs.
  double sending_seconds_per_byte = 0;
  std::vector<Measurement> measurements;

  std::string_view kind_of(int layer) const noexcept;
  const Kind* find_kind(std::string_view name) const noexcept;

  /// Times of a layer of this kind for `micro_batch` rows on `tensor` ranks; nothing where neither the device
  /// nor "any" has been measured with that many ranks.
  ///  * a measured micro-batch, or a straight line between the two next to it
  ///  * never more than a larger micro-batch took: the same kernels run, so what was measured above it was
  ///    disturbed
  ///  * beyond the largest in proportion to the rows; below the smallest as long as the smallest
  std::optional<LayerTimes> times(std::string_view device, std::string_view kind, int tensor,
                                  int micro_batch) const;

  /// Throws kInvalidUsage where it contradicts the model, naming what differs.
  void check(const Model& wanted) const;
  /// The micro-batches of layers that were measured on a device (or on any), ascending; empty = none.
  std::vector<int> micro_batches(std::string_view device) const;

  /// Throws kInvalidUsage naming file, line and field.
  static Profile load(const std::string& path);
  static Profile parse(const JsonDocument& document);
  Json to_json() const;
};

}  // namespace tombolo::planner
