// Measures how long the parts of a model take on this rank with the trainer's own kernels. The planner uses
// these times in place of an estimate by FLOPs.
#pragma once

#include <cstddef>
#include <functional>

#include "base/clock.h"
#include "trainer/cpu/cpu_stage.h"
#include "trainer/model/model.h"
#include "trainer/model/stage_compute.h"

namespace tombolo::trainer {

/// The times of one micro-batch, on one rank with a core or a GPU of its own.
struct PartTimes {
  double forward = 0, backward = 0;  ///< seconds, until the device has done it; backward with what it
                                     ///< computes again
  double update = 0;                 ///< seconds per step: clearing gradients, their norm, AdamW
  std::size_t kept_bytes = 0;        ///< activations kept for the backward pass
};

struct LayerTimes {
  PartTimes layer;      ///< one transformer block
  PartTimes embedding;  ///< what the first stage has besides its blocks
  PartTimes head;       ///< what the last stage has besides: norm, output projection, loss. Its update is the
                        ///< norm's and that of its own copy of the embedding, as in a pipeline
};

struct LayerTimesOptions {
  Shape shape;  ///< its number of layers does not matter
  int rows = 1;
  /// How long steps are run, approximately; at least one is run after the warm-up.
  Duration budget = std::chrono::seconds(1);
  int threads = 1;  ///< for matrix products
  // As in StageOptions.
  compute::Precision precision = compute::Precision::kFloat32, moments = compute::Precision::kFloat32;
  planner::Recompute recompute = planner::Recompute::kNone;
  StageFactory make_stage = cpu_stages();  ///< what computes
  std::function<void()> ready;  ///< called once warm, so that several ranks can begin together; may be empty
};

/// Runs training steps of a model of three layers on random tokens and takes the median of every part. Two
/// micro-batches are in flight, so that caches hold what they hold in a pipeline. Throws kInvalidUsage for a
/// shape out of range, kSystem where memory does not suffice.
LayerTimes time_layers(const LayerTimesOptions& options);

/// The part of time_layers() that measures, by any clock and on any stage that holds a whole model of
/// kTimedLayers layers with two micro-batches in flight; it leaves out `kept_bytes`. Tests give it a stage
/// whose times are known.
LayerTimes time_stage(StageCompute& stage, const LayerTimesOptions& options, const Clock& clock);
inline constexpr int kTimedLayers = 3;

}  // namespace tombolo::trainer
