// The interface that a device's back end implements: the computation of one pipeline stage. Schedule,
// transfers, gradient reduction and logs know only this; trainer/cpu/ implements it.
//
// trainer/model/ owns what is the same on every device: the model's shape and tensors, where a stage's
// parameters lie, checkpoints, the training text and the optimizer's arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "compute/precision.h"
#include "trainer/model/model.h"
#include "trainer/model/optimizer.h"
#include "trainer/model/stage_parameters.h"

namespace tombolo::trainer {

struct StageOptions {
  Shape shape;
  int first_layer = 0;
  int layers = 0;
  int rows = 1;           ///< per micro-batch
  int in_flight = 1;      ///< micro-batches whose activations are held at once
  double loss_scale = 1;  ///< multiplies every token's gradient: 1 / (global batch x context)
  int threads = 1;        ///< for matrix products
  /// The precision of the linear layers' products. Parameters, gradients, moments and everything else are
  /// fp32.
  compute::Precision precision = compute::Precision::kFloat32;
  bool training = true;  ///< false: no gradients, no optimizer state, forward only
};

struct StageMemory {
  std::size_t parameters = 0, gradients = 0, optimizer = 0, activations = 0;  ///< bytes
};

/// Called between the layers of forward and backward: keeps transfers going while this thread computes.
using Progress = std::function<void()>;
/// Called by the backward pass each time more gradients are complete: those from this arena offset to the
/// end.
using GradientsFinal = std::function<void(std::size_t)>;

/// Used by one thread at a time, except that another may read and write gradients that the backward pass has
/// announced as final. Arenas and buffers live as long as the object. Boundary buffers hold rows x context x
/// width floats.
class StageCompute {
 public:
  virtual ~StageCompute() = default;

  virtual const StageParameters& layout() const noexcept = 0;
  virtual StageMemory memory() const noexcept = 0;

  /// The arenas, in the layout's order. A communicator may send from this memory and receive into it.
  virtual std::span<float> parameters() noexcept = 0;
  virtual std::span<float> gradients() noexcept = 0;

  /// The buffer into which the caller puts the previous stage's activation before forward() (not on the first
  /// stage). There is a ring of in_flight + 1 buffers, and each is free again once the backward pass of its
  /// micro-batch has ended.
  virtual std::span<float> input(int micro_batch) noexcept = 0;
  /// The activation that forward() left for the next stage (not on the last stage); valid until the backward
  /// pass of the same micro-batch.
  virtual std::span<const float> output(int micro_batch) const noexcept = 0;
  /// Before backward() the caller puts the loss's gradient by this stage's output here (not on the last
  /// stage); afterwards it holds the gradient by this stage's input. There is a ring of kGradientBuffers
  /// buffers.
  virtual std::span<float> boundary_gradient(int micro_batch) noexcept = 0;
  static constexpr int kGradientBuffers = 3;

  /// Computes the forward pass. `tokens` (first stage) and `targets` (last stage) are rows x context. Returns
  /// the sum of the tokens' losses (natural logarithm) on the last stage, else 0. At most in_flight
  /// micro-batches may wait for their backward pass.
  virtual double forward(int micro_batch, std::span<const std::int32_t> tokens,
                         std::span<const std::int32_t> targets, const Progress& progress) = 0;
  /// Computes the backward pass and adds to the gradients. `tokens` are those given to forward().
  virtual void backward(int micro_batch, std::span<const std::int32_t> tokens, const Progress& progress,
                        const GradientsFinal& gradients_final) = 0;
  /// Only on the last stage: the scores of every vocabulary entry after the token at `position` of `row`,
  /// from a forward pass without targets.
  virtual std::span<const float> scores(int micro_batch, int row, int position) = 0;

  virtual void clear_gradients() noexcept = 0;
  /// The sum of squares of this stage's gradients, without copies of tensors that another stage owns.
  virtual double gradient_square_sum() const noexcept = 0;
  virtual void update(const AdamWStep& step) noexcept = 0;
};

}  // namespace tombolo::trainer
