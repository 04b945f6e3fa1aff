// AdamW with decoupled decay on matrices, linear warm-up, a schedule of the rate, and clipping by the global
// norm: the per-step constants. The update of the parameters itself is a kernel of the device.
#pragma once

#include <cstdint>

namespace tombolo::trainer {

/// How the rate goes on after the warm-up.
enum class RateSchedule {
  kConstant,
  kCosine,  ///< falls along half a cosine to the smallest rate at the end of the run
};

struct AdamW {
  double learning_rate = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;  ///< on matrices only
  double clip = 0;          ///< largest gradient norm over the whole model; 0 = no limit
  std::int64_t warmup = 0;  ///< steps over which the rate rises linearly to learning_rate
  RateSchedule schedule = RateSchedule::kConstant;
  double smallest_rate = 0;  ///< at the end of a schedule that falls
  std::int64_t steps = 0;    ///< of the whole run, at whose last step such a schedule ends
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

/// The rate at `step` (from 0): learning_rate x min(1, (step + 1) / warmup); of a cosine after the warm-up
///   smallest + (learning_rate - smallest) (1 + cos(pi (step - warmup) / (steps - warmup))) / 2,
/// as llm.c has it; from `steps` on the smallest rate.
double learning_rate_at(const AdamW& options, std::int64_t step) noexcept;

/// The constants of a step. `step` counts from 0; `gradient_norm` is that of the whole model before clipping.
AdamWStep adamw_step(const AdamW& options, std::int64_t step, double gradient_norm) noexcept;

}  // namespace tombolo::trainer
