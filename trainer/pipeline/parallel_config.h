// The parallel configuration of a job: its pipeline stages, its data-parallel replicas, and the ranks that
// take them.
#pragma once

#include <vector>

#include "planner/plan/plan.h"
#include "trainer/model/model.h"

namespace tombolo::trainer {

/// The part of the model that a rank holds, and the part of the batch that it computes.
struct RankCoordinates {
  int stage = 0;
  int replica = 0;
};

/// How a job is divided among ranks. Every (stage, replica) belongs to exactly one rank.
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
  /// Throws kInvalidUsage when layers are missing or in two stages, coordinates are missing or given twice,
  /// or the batch is not divisible.
  void check(const Shape& shape) const;
};

/// Divides layers as evenly as possible (the first stages take the remainder); rank = stage x data + replica.
/// A micro_batch of 0 stands for a replica's rows divided by the number of stages, or all its rows where that
/// is not a whole number.
ParallelConfig even_parallel_config(const Shape& shape, int pipeline, int data, int global_batch,
                                    int micro_batch);
/// The configuration of a plan. Throws kUnsupported for a plan that the trainer cannot run.
ParallelConfig parallel_config_of(const planner::Plan& plan);

}  // namespace tombolo::trainer
