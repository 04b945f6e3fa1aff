// One transformer block as operations on the device's compute stream.
#pragma once

#include "trainer/cuda/device.h"
#include "trainer/cuda/memory/stage_buffers.h"
#include "trainer/model/stage_parameters.h"

namespace tombolo::trainer::cuda {

/// A block's tensors as products and norms read them.
struct BlockParameters {
  BlockParameters(Values arena, const StageParameters& layout, int layer);
  Values norm1_weight, norm1_bias, qkv_weight, qkv_bias, projection_weight, projection_bias, norm2_weight,
      norm2_bias, mlp_weight, mlp_bias, mlp_projection_weight, mlp_projection_bias;
};

/// The gradients of the same.
struct BlockGradients {
  BlockGradients(float* arena, const StageParameters& layout, int layer);
  float *norm1_weight, *norm1_bias, *qkv_weight, *qkv_bias, *projection_weight, *projection_bias,
      *norm2_weight, *norm2_bias, *mlp_weight, *mlp_bias, *mlp_projection_weight, *mlp_projection_bias;
};

/// What comes into a block: `sum`, which is there already where `residual` is null; else its first norm makes
/// it of `added` (what the block before adds) and `residual`.
struct BlockInput {
  Values sum, added, residual;
};

/// Who adds what a block computes to its residual stream.
enum class BlockEnd {
  kNextNorm,  ///< the norm that follows; the block leaves in scratch.projected what is to be added
  kBlock,     ///< the block, into kept.out: the last of a stage that sends it on
};

void block_forward(Device& device, const StageSizes& sizes, const BlockInput& input, const LayerBuffers& kept,
                   const BlockParameters& parameters, const ScratchBuffers& scratch, BlockEnd end);

/// What block_forward keeps, again, from the block's input.
void block_recompute(Device& device, const StageSizes& sizes, const Values& in, const LayerBuffers& kept,
                     const BlockParameters& parameters, const ScratchBuffers& scratch);

/// `gradient` comes in as the loss's gradient by the block's output and leaves as that by its input `in`.
void block_backward(Device& device, const StageSizes& sizes, const Values& gradient, const Values& in,
                    const LayerBuffers& kept, const BlockParameters& parameters,
                    const BlockGradients& gradients, const ScratchBuffers& scratch);

}  // namespace tombolo::trainer::cuda
