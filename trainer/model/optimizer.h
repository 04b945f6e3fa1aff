// AdamW with decoupled decay on matrices, linear warm-up and clipping by the global norm. This file computes
// the constants of a step; the update of the parameters itself is a kernel of the device.
#pragma once

#include <cstdint>

namespace tombolo::trainer {

struct AdamW {
  double learning_rate = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;  ///< on matrices only
  double clip = 0;          ///< largest gradient norm over the whole model; 0 = no limit
  std::int64_t warmup = 0;  ///< steps over which the rate rises linearly to learning_rate
  /// Throws kInvalidUsage naming the number that is out of range.
  void check() const;
};

/// One step's constants, in the form in which the kernels need them:
///   m = beta1 m + (1 - beta1) s g;  v = beta2 v + (1 - beta2) (s g)^2;
///   p = p decay - rate m / (sqrt(v) root_scale + epsilon), decay = 1 where the tensor does not decay.
struct AdamWStep {
  float gradient_scale;  ///< s: brings the norm down to clip
  float beta1, beta2, epsilon;
  float decay;          ///< 1 - learning rate x weight decay
  float rate;           ///< learning rate / (1 - beta1^t)
  float root_scale;     ///< 1 / sqrt(1 - beta2^t)
  std::int64_t number;  ///< of the step, from 0: what random rounding depends on
};

/// The learning rate at `step` (from 0): learning_rate x min(1, (step + 1) / warmup).
double learning_rate_at(const AdamW& options, std::int64_t step) noexcept;

/// The constants of a step. `step` counts from 0; `gradient_norm` is that of the whole model before clipping.
AdamWStep adamw_step(const AdamW& options, std::int64_t step, double gradient_norm) noexcept;

}  // namespace tombolo::trainer
