// Forward and backward of one stage on a device.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trainer/cuda/stage/block.h"
#include "trainer/cuda/stage/head.h"
#include "trainer/cuda/stage/stage_context.h"
#include "trainer/cuda/stage/token_staging.h"

namespace tombolo::trainer::cuda {

/// Members do what those of StageCompute of the same name do.
class Passes {
 public:
  explicit Passes(StageContext& stage);

  void forward(int micro_batch, std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets,
               const Progress& progress);
  void backward(int micro_batch, const Progress& progress, const GradientsFinal& gradients_final);
  double take_loss_sum();
  std::span<const float> scores(int micro_batch, int row, int position);

  /// The event after which the gradients from this offset to the arena's end are final. By any thread, once
  /// backward has announced them.
  const Mark& final_from(std::size_t offset) const;

 private:
  void bring_input(Slot& slot, int micro_batch, std::span<const std::int32_t> tokens,
                   std::span<const std::int32_t> targets);
  void forward_layer(Slot& slot, std::size_t layer);
  void bring_gradient(GradientSlot& gradient, int micro_batch);
  void backward_layer(Slot& slot, const Values& gradient, std::size_t layer);
  void embed_backward(const Slot& slot, const Values& gradient);
  void after_layer(const Progress& progress) {
    stage_.settle_if_timed();
    if (progress) progress();
  }
  /// Waits while transfers go on.
  void wait_for(const Mark& mark, const Progress& progress) const;

  StageContext& stage_;
  TokenStaging tokens_;
  std::vector<Slot> slots_;
  std::vector<GradientSlot> gradient_slots_;
  std::vector<BlockParameters> blocks_;
  std::vector<BlockGradients> block_gradients_;
  std::optional<HeadTensors> head_;
  std::vector<Mark> layer_done_;  ///< backward of each block, and so its gradients
  Mark embedded_;                 ///< backward of the embedding
};

}  // namespace tombolo::trainer::cuda
