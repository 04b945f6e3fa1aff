// Where the first value lies that is not a number.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "collectives/engine/communicator.h"
#include "trainer/model/stage_compute.h"
#include "trainer/pipeline/parallel_config.h"

namespace tombolo::trainer {

/// A tensor that holds values that are not finite.
struct NotFinite {
  enum class Kind { kParameter, kGradient };
  Kind kind;
  std::string text;  ///< "gradient of layer 3's fcw: 17 of 65536 values are not finite"
};

/// The first tensor of this stage that holds any: the parameters in forward order, because they spoil
/// everything after them; then, in the order in which backward makes them, the gradients. Nothing where all
/// values are finite. Waits for the device; between backward and update only.
std::optional<NotFinite> first_not_finite(StageCompute& compute);

/// What a rank knows about the step after which training cannot go on.
struct Divergence {
  int step = 0;
  double loss = 0, gradient_norm = 0;  ///< of the whole model
  bool own_loss_finite = true;         ///< of this rank's micro-batches
  RankCoordinates coordinates;
};

/// Training cannot go on: the loss or the gradient norm is no number any more. Whoever starts runs by the
/// hundred tells it from options that are refused.
class Diverged final : public Error {
 public:
  explicit Diverged(const std::string& message) : Error(Cause::kInvalidUsage, message) {}
};

/// Collective over `world` (null: one rank). Throws Diverged on every rank, naming the step, the rank on
/// which it began and the tensor: a rank whose own loss is not finite; else one with such a parameter; else
/// the last stage with such a gradient, because backward comes from there. (Gradients have been summed over
/// the replicas by then; losses and parameters are each rank's own.)
[[noreturn]] void fail_divergence(const Divergence& divergence, StageCompute& compute,
                                  collectives::Communicator* world);

}  // namespace tombolo::trainer
