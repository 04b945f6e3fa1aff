// Where the first value lies that is not a number.
#pragma once

#include <optional>
#include <string>

#include "collectives/engine/communicator.h"
#include "trainer/model/stage_compute.h"
#include "trainer/pipeline/parallel_config.h"

namespace tombolo::trainer {

/// The first tensor of this stage that holds a value that is not finite, with what it is and how many: the
/// parameters in forward order, since they spoil everything after them; then, in the order in which backward
/// makes them, the gradients. "gradient of layer 3's fcw: 17 of 65536 values are not finite". Nothing where
/// all are. Waits for the device; between backward and update only.
std::optional<std::string> first_not_finite(StageCompute& compute);

/// What a rank knows about the step after which training cannot go on.
struct Divergence {
  int step = 0;
  double loss = 0, gradient_norm = 0;  ///< of the whole model
  bool own_loss_finite = true;         ///< of this rank's micro-batches
  RankCoordinates coordinates;
};

/// Collective over `world` (null: one rank). Throws kInvalidUsage on every rank, naming the step, the rank on
/// which it began and the tensor: a rank whose own loss is not finite, else the lowest that holds anything
/// that is not finite. (Gradients have been summed over the replicas by then; losses are each rank's own.)
[[noreturn]] void fail_divergence(const Divergence& divergence, StageCompute& compute,
                                  collectives::Communicator* world);

}  // namespace tombolo::trainer
