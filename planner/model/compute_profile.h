// How fast a framework's kernels compute a layer on a kind of device: the file library/compute.json, whose
// fields docs/library.md describes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "topology/files/library_names.h"

namespace tombolo::planner {

/// The constants of layer_seconds() (planner/cost/layer_seconds.h). With the defaults a layer takes its FLOPs
/// over the attained FLOP/s, and what its ranks send each other.
struct ComputeProfile {
  double products =
      1;  ///< share of the device's attained FLOP/s (those of one large product) that a layer's reach
  bool fused_attention = false;  ///< attention skips what is masked, and its weights never go to memory
  double attention = 1;          ///< share of `products` that attention's core reaches
  /// Times the activations that a layer keeps (arXiv 2205.05198): what kernels other than products move
  /// through memory in a forward pass.
  double traffic = 0;
  double loss_traffic = 0;  ///< bytes moved per logit by the loss, forward and backward
  /// Seconds per layer below which a pass does not fall, because its kernels are launched one by one.
  double forward_floor = 0, backward_floor = 0;
  double floor_per_host = 0;  ///< more on the forward floor, for each further host that shares a layer
  double floor_per_pipelined_rank =
      0;                     ///< the same, for each rank that shares a layer of a pipeline over hosts
  double inside_share = 1;   ///< of a link's attained rate that reductions inside a host reach
  double network_share = 1;  ///< the same between hosts
  double hop_seconds = 0;    ///< that each hop of a reduction waits inside a host, beside the link's latency
  double network_hop_seconds = 0;  ///< the same between hosts
  double step_seconds = 0;         ///< once per step, whatever its size
  /// By which a pass is longer that begins with what another stage sent, in a plan of which some device lacks
  /// memory: there PyTorch's allocator must give back what it holds before it gets anything.
  double crowded_seconds = 0;
  std::string source;  ///< from which rows or estimates the constants are, and their error
};

/// What a process of a software holds where that was measured to differ from what planner/cost/memory.h
/// counts for Megatron-LM: the fields of compute.json's `memory`.
struct HeldMemory {
  double gradient_bytes = 0;  ///< per parameter, beside the gradients that are summed in fp32
  /// Values per token that a layer keeps for its backward pass: of the model's width, and of its MLP's
  /// inside.
  double kept_hidden = 0, kept_inner = 0;
  double logit_bytes = 0;  ///< per logit, with its gradient and what the loss makes of both
  double bytes = 0;        ///< once per process, beside its tensors
  /// Activations of whole micro-batches that a process holds although it needs them no longer, where ranks
  /// share layers (deferred_bytes() in planner/cost/memory.h): so many where a pipeline has one stage, and so
  /// many where it has three and more and at most `deferred_tensor` ranks share a layer.
  double deferred_alone = 0, deferred_staged = 0;
  int deferred_tensor = 0;
  std::string source;  ///< from which rows, and their error
};

/// The records of one software. Immutable once read.
class ComputeProfiles {
 public:
  void add(std::string device, ComputeProfile profile);
  /// The record of the GPU of that name, else the one for any GPU; null where there is neither. Owned by this
  /// object.
  const ComputeProfile* find(std::string_view device) const noexcept;

  std::optional<HeldMemory> memory;  ///< if it was measured

 private:
  std::vector<std::pair<std::string, ComputeProfile>> by_device_;
};

struct ComputeLibrary {
  static constexpr std::string_view kAnyGpu = "any GPU";
  struct Record {
    std::string device;                 ///< as library/devices.json names it, or kAnyGpu
    std::vector<std::string> software;  ///< frameworks' names, or a release that was measured
    ComputeProfile profile;
  };
  std::vector<Record> records;
  struct MemoryRecord {
    std::vector<std::string> software;
    HeldMemory memory;
  };
  std::vector<MemoryRecord> memory;

  /// Reads compute.json from where topology::library_file() finds it. Throws kInvalidUsage naming file, line
  /// and field.
  static ComputeLibrary load();
  static ComputeLibrary parse(const JsonDocument& document);
  /// The records of a software; null where there is none, as for the bundled trainer, whose layers are
  /// measured (`tombolo profile`) or follow from FLOPs.
  std::shared_ptr<const ComputeProfiles> of(std::string_view software) const;
  /// All software that has records, each once, sorted.
  std::vector<std::string> software() const;
};

/// The records that the library has of a software, or where none is named of a framework, by its name; null
/// where it has none of the framework. Reads the file only where there can be some. Throws as
/// ComputeLibrary::load() does, and kInvalidUsage for a software of which there are no records.
std::shared_ptr<const ComputeProfiles> library_profiles(std::string_view framework,
                                                        std::string_view software = {});

}  // namespace tombolo::planner
