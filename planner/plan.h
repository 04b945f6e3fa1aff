// The plan: which rank does what, and what that is predicted to cost. Its JSON is documented in
// docs/plan-file.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "planner/model.h"
#include "topology/nic.h"

namespace tombolo::planner {

struct Stage {
  int first_layer = 0;
  int layers = 0;
};

/// Launcher rank r (index in Plan::ranks) runs on `host` and takes this place.
struct RankPlace {
  std::string host;
  int device = 0;  ///< index in the host's devices
  int stage = 0;
  int replica = 0;
};

/// Ranks that communicate, and over what.
struct Group {
  std::string kind;                                      ///< "data" or "pipeline"
  std::vector<int> ranks;                                ///< for "pipeline": in stage order
  topology::NicKind nic_kind = topology::NicKind::kTcp;  ///< the slowest kind used inside the group
};

struct RankMemory {
  std::uint64_t parameters = 0, gradients = 0, optimizer = 0, activations = 0, buffers = 0,
                total = 0;  ///< bytes
};

struct Prediction {
  double step_seconds = 0;
  double tokens_per_second = 0;
  double bubble_fraction = 0;      ///< share of the ranks' time in which nothing is computed
  std::vector<RankMemory> memory;  ///< by rank
};

struct Plan {
  static constexpr int kVersion = 1;

  std::string strategy;  ///< "megatron", "holmes"
  std::string routing;   ///< "per-peer" or "shared"
  Job job;               ///< with every choice filled in
  std::vector<Stage> stages;
  std::vector<RankPlace> ranks;
  std::vector<Group> groups;
  Prediction prediction;
  std::vector<std::string> notes;  ///< why, for people

  int pipeline_size() const noexcept { return static_cast<int>(stages.size()); }
  int data_size() const noexcept;
  /// Per replica and step: global_batch / data / micro_batch.
  int micro_batches() const noexcept;
  /// The rank at (stage, replica). Throws kInvalidUsage when there is none.
  int rank_at(int stage, int replica) const;

  /// Throws kInvalidUsage naming file, line and field; also checks that stages tile the layers, each (stage,
  /// replica) is taken once, and the batch divides.
  static Plan load(const std::string& path);
  static Plan parse(const JsonDocument& document);
  Json to_json() const;
  void save(const std::string& path) const;
};

}  // namespace tombolo::planner
