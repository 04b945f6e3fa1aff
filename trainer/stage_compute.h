// What a device does for one stage of the model. Everything above (schedule, transfers, reduction, logs)
// knows only this; cpu/ implements it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "compute/precision.h"
#include "trainer/layout.h"
#include "trainer/model.h"
#include "trainer/optimizer.h"

namespace tombolo::trainer {

struct StageOptions {
  Shape shape;
  int first_layer = 0;
  int layers = 0;
  int rows = 1;           ///< per micro-batch
  int in_flight = 1;      ///< micro-batches whose activations are held at once
  double loss_scale = 1;  ///< multiplies every token's gradient: 1 / (global batch x context)
  int threads = 1;        ///< for matrix products
  /// Of the linear layers' products. Parameters, gradients, moments and all else are fp32.
  compute::Precision precision = compute::Precision::kFloat32;
  bool training = true;  ///< false: no gradients, no optimizer state, forward only
};

struct StageMemory {
  std::size_t parameters = 0, gradients = 0, optimizer = 0, activations = 0;  ///< bytes
};

/// Called between the layers of forward and backward: keeps transfers going while this thread computes.
using Progress = std::function<void()>;
/// Called by backward each time more gradients are complete: those from this arena offset to the end.
using GradientsFinal = std::function<void(std::size_t)>;

/// One thread at a time, except that gradients that backward has announced as final may be read and written
/// by another. Arenas and buffers live as long as the object. Boundary buffers hold rows x context x width
/// floats.
class StageCompute {
 public:
  virtual ~StageCompute() = default;

  virtual const StageParameters& layout() const noexcept = 0;
  virtual StageMemory memory() const noexcept = 0;

  /// In the layout's order; memory that a communicator may send from and receive into.
  virtual std::span<float> parameters() noexcept = 0;
  virtual std::span<float> gradients() noexcept = 0;

  /// Where the activation that enters this stage is to be put before forward (not on the first stage). A ring
  /// of in_flight + 1: free again once backward of the same micro-batch is over.
  virtual std::span<float> input(int micro_batch) noexcept = 0;
  /// What forward left for the next stage (not on the last stage); until backward of the same micro-batch.
  virtual std::span<const float> output(int micro_batch) const noexcept = 0;
  /// The loss's gradient by this stage's output, to be put here before backward (not on the last stage), and
  /// after backward its gradient by this stage's input. A ring of kGradientBuffers.
  virtual std::span<float> boundary_gradient(int micro_batch) noexcept = 0;
  static constexpr int kGradientBuffers = 3;

  /// `tokens` (first stage) and `targets` (last stage) are rows x context. Returns the sum of the tokens'
  /// losses (natural logarithm) on the last stage, else 0. At most in_flight micro-batches may wait for
  /// backward.
  virtual double forward(int micro_batch, std::span<const std::int32_t> tokens,
                         std::span<const std::int32_t> targets, const Progress& progress) = 0;
  /// Adds to the gradients. `tokens` as given to forward.
  virtual void backward(int micro_batch, std::span<const std::int32_t> tokens, const Progress& progress,
                        const GradientsFinal& gradients_final) = 0;
  /// Last stage: the scores of every vocabulary entry after the token at `position` of `row`, from a forward
  /// pass without targets.
  virtual std::span<const float> scores(int micro_batch, int row, int position) = 0;

  virtual void clear_gradients() noexcept = 0;
  /// Sum of squares, without copies of tensors that another stage owns.
  virtual double gradient_square_sum() const noexcept = 0;
  virtual void update(const AdamWStep& step) noexcept = 0;
};

/// On the CPU. Throws as check_precision() does, kInvalidUsage for shapes out of range, kSystem when memory
/// does not suffice (naming how much).
std::unique_ptr<StageCompute> make_cpu_stage(const StageOptions& options);

}  // namespace tombolo::trainer
