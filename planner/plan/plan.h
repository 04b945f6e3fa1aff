// The plan: what each rank does, and the time and memory that this is predicted to take. Its JSON is
// documented in docs/plan-file.md.
//
// This folder owns the plan and what it is made of: placements of ranks (placement.h), splits of layers
// (layer_split.h), and the cluster as the planner sees it (cluster_view.h).
//
// A replica's pipeline has slots in the order of its layers. A slot is taken by one rank, or by several that
// share its layers (tensor parallelism), and holds one stage; with model chunks it holds one virtual stage of
// each chunk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "planner/model/job.h"
#include "topology/nic.h"

namespace tombolo::planner {

/// A stage of a pipeline: consecutive layers, and how many ranks share them.
struct Stage {
  int first_layer = 0;
  int layers = 0;
  int tensor = 1;  ///< ranks that share each of these layers
  friend bool operator==(const Stage&, const Stage&) = default;
};

/// One replica of the model: its stages, and its share of the batch. With context parallelism
/// `Job::context_parallel` replicas in a row take the same rows, and each of them an equal part of their
/// tokens.
struct Pipeline {
  /// Stages in the order of their layers. With model chunks these are virtual stages: of n slots, number v is
  /// chunk v / n of slot v % n.
  std::vector<Stage> stages;
  int rows = 0;  ///< of the global batch, per step
  int micro_batch = 0;

  int micro_batches() const noexcept { return micro_batch > 0 ? rows / micro_batch : 0; }
  friend bool operator==(const Pipeline&, const Pipeline&) = default;
};

/// Where launcher rank r (index in Plan::ranks) runs, and which pipeline slot it takes.
struct RankPlacement {
  std::string host;
  int device = 0;  ///< index in the host's devices
  int stage = 0;   ///< the slot in the pipeline that it takes
  int replica = 0;
  int tensor = 0;  ///< which of the ranks that share the stage's layers
};

/// Ranks that communicate with each other.
struct Group {
  std::string kind;                                      ///< "tensor", "context", "expert", "data",
                                                         ///< "expert-data" or "pipeline"
  std::vector<int> ranks;                                ///< for "pipeline": in stage order
  topology::NicKind nic_kind = topology::NicKind::kTcp;  ///< the slowest kind used inside the group
};

/// A device that the plan could have used and leaves idle.
struct IdleDevice {
  std::string host;
  int device = 0;  ///< index in the host's devices
  friend bool operator==(const IdleDevice&, const IdleDevice&) = default;
};

struct RankMemory {
  std::uint64_t parameters = 0, gradients = 0, optimizer = 0, activations = 0, buffers = 0,
                total = 0;  ///< bytes
};

/// What the collective engine is expected to do with gradients, where it is the engine that reduces them.
struct ExpectedReduction {
  std::vector<int> ranks;         ///< one of each replica; of ranks that share layers, the first
  std::string algorithm;          ///< as TOMBOLO_ALGORITHM has it; "host": through the memory of one host
  std::uint64_t piece_bytes = 0;  ///< into which it cuts what it sends; 0: none
  int calls = 0;                  ///< per step
  std::uint64_t bytes = 0;        ///< of one call
  double seconds = 0;  ///< that one call takes with the links to itself, by the engine's cost model
  std::string why;     ///< the engine's reason, as a sentence without its end
  friend bool operator==(const ExpectedReduction&, const ExpectedReduction&) = default;
};

struct Prediction {
  double step_seconds = 0;
  double tokens_per_second = 0;
  double bubble_fraction = 0;      ///< share of the ranks' time in which nothing is computed
  std::vector<RankMemory> memory;  ///< by rank
  std::vector<ExpectedReduction> reductions = {};
};

/// How a plan was chosen among others that are predicted to be about as fast.
struct Choice {
  /// A plan that was not taken.
  struct Rival {
    std::string layout;       ///< in words
    double step_seconds = 0;  ///< as predicted
    std::string why_not;
    friend bool operator==(const Rival&, const Rival&) = default;
  };
  double tolerance = 0;  ///< by which share of the fastest step plans may be longer to count as equally fast
  int cases = 0;         ///< so many slower and faster devices and links were tried
  int held = 0;          ///< in so many of these it was within the tolerance of the best of the rivals
  double worst = 0;      ///< by which share its step was longer than the best rival's in the worst case
  std::string worst_case;
  std::vector<Rival> next;  ///< the next best, at most three, the fastest first
  friend bool operator==(const Choice&, const Choice&) = default;
};

struct Plan {
  static constexpr int kVersion = 1;

  std::string strategy;              ///< a strategy's name, or any name for a plan made by hand
  std::string routing;               ///< "per-peer" or "shared"
  Job job;                           ///< with every choice filled in; where replicas differ, the first one's
  std::vector<Pipeline> pipelines;   ///< by replica
  std::vector<RankPlacement> ranks;  ///< of the ranks that take part, by rank
  std::vector<IdleDevice> left_out;
  std::vector<Group> groups;
  Prediction prediction;
  std::optional<Choice> choice;    ///< absent where the fastest was taken whatever else it costs
  std::vector<std::string> notes;  ///< the reasons for the plan, for users

  int data_size() const noexcept { return static_cast<int>(pipelines.size()); }
  /// The number of slots of a replica's pipeline: as many as it has stages, or with c model chunks stages /
  /// c.
  int pipeline_size(int replica = 0) const;
  /// The stages of a replica; with model chunks its virtual stages.
  const std::vector<Stage>& stages(int replica = 0) const;
  /// The stage that a slot holds; with model chunks the first of them.
  const Stage& stage(int slot, int replica = 0) const;
  /// The number of layers in all chunks of a slot.
  int layers_at(int slot, int replica = 0) const;
  /// The shape in words, for users: "2 stages x 4 replicas", or "3 replicas of 1, 6, 1 stages".
  std::string shape() const;
  /// Whether all replicas have equal stages, rows and micro-batches, and all stages one degree of tensor
  /// parallelism.
  bool uniform() const noexcept;
  /// Micro-batches per replica and step; where replicas differ, those of the first one.
  int micro_batches() const noexcept { return pipelines.empty() ? 0 : pipelines.front().micro_batches(); }
  /// The rank in that slot. Throws kInvalidUsage when there is none.
  int rank_at(int stage, int replica, int tensor = 0) const;
  /// The ranks of each slot, by replica, stage and tensor index.
  std::vector<std::vector<std::vector<int>>> ranks_by_slot() const;

  /// Reads a plan file. Throws kInvalidUsage naming file, line and field. It also checks that the stages
  /// cover all layers in order, that each slot is taken once, and that the batch is divisible as the plan
  /// says.
  static Plan load(const std::string& path);
  static Plan parse(const JsonDocument& document);
  Json to_json() const;
  /// Writes the file; a reader never sees half of it. Throws kSystem.
  void save(const std::string& path) const;
};

/// `job.data` replicas that are all alike, each with these stages and an equal share of the batch.
std::vector<Pipeline> equal_pipelines(const Job& job, const std::vector<Stage>& stages);

}  // namespace tombolo::planner
