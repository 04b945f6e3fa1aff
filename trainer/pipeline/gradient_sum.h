// How the gradients of a stage become sums over the ranks that hold the same parameters: the interface.
#pragma once

#include <string>

#include "trainer/model/stage_parameters.h"

namespace tombolo::trainer {

/// What adds gradients up.
enum class Reduction {
  kEngine,  ///< the collective engine, in host memory
  kNccl,    ///< NCCL, in the GPUs' memory
};

/// Over the replicas, and, for an embedding that the first and the last stage share, over these two. Both
/// ends of such an embedding get the same bits. Used by one thread, except abort(). Errors are the
/// communicator's, or the device's.
class GradientSum {
 public:
  virtual ~GradientSum() = default;
  /// The gradients of `bucket` have been announced. Called for all buckets of a step in the order of
  /// gradient_buckets(), alike on every rank of a stage; may return before the sum is there.
  virtual void start(const Bucket& bucket) = 0;
  /// Returns when all sums of the step are the stage's.
  virtual void finish() = 0;
  /// Makes what is under way, and every later call, fail. Any thread.
  virtual void abort(const std::string& reason) noexcept = 0;
};

}  // namespace tombolo::trainer
