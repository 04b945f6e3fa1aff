// The parallel configuration of a job: its pipeline stages, its data-parallel replicas, and which rank is
// which.
#pragma once

#include <vector>

#include "planner/plan/plan.h"
#include "trainer/model/model.h"

namespace tombolo::trainer {

/// Which part of the model a rank holds, and which part of the batch it computes.
struct RankCoordinates {
  int stage = 0;
  int replica = 0;
};

/// How a job is spread over ranks. Every (stage, replica) belongs to exactly one rank.
struct ParallelConfig {
  std::vector<planner::Stage> stages;
  int replicas = 1;
  int global_batch = 1;                      ///< rows per step, over all replicas
  int micro_batch = 1;                       ///< rows
  std::vector<RankCoordinates> coordinates;  ///< by rank

  int pipeline() const noexcept { return static_cast<int>(stages.size()); }
  int ranks() const noexcept { return static_cast<int>(coordinates.size()); }
  /// Micro-batches per replica and step.
  int micro_batches() const noexcept { return global_batch / replicas / micro_batch; }
  /// Throws kInternal when no rank has these coordinates (check() excludes that).
  int rank_at(int stage, int replica) const;
  /// Throws kInvalidUsage: layers missing or in two stages, coordinates missing or given twice, a batch that
  /// does not divide.
  void check(const Shape& shape) const;
};

/// Layers as evenly as they go (the first stages take the remainder); rank = stage x data + replica.
/// micro_batch 0: a replica's rows divided by the number of stages; all its rows where that does not divide.
ParallelConfig even_parallel_config(const Shape& shape, int pipeline, int data, int global_batch,
                                    int micro_batch);
/// Throws kUnsupported for a plan that the trainer cannot run.
ParallelConfig parallel_config_of(const planner::Plan& plan);

}  // namespace tombolo::trainer
