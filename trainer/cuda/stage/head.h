// What the last stage has beside its blocks: final norm, output projection and loss, as operations on the
// device's compute stream. The scores of a chunk of tokens at a time are held, never those of all.
#pragma once

#include "trainer/cuda/device.h"
#include "trainer/cuda/memory/stage_buffers.h"
#include "trainer/cuda/stage/block.h"

namespace tombolo::trainer::cuda {

/// The head's tensors; gradients are null where the stage does not train.
struct HeadTensors {
  HeadTensors(Values parameters, float* gradients, const StageParameters& layout);
  Values norm_weight, norm_bias, embedding;
  float *norm_weight_gradient, *norm_bias_gradient, *embedding_gradient;
};

/// Makes the last block's output of what the block left, and the final norm of that, into scratch.wide.
void head_norm(Device& device, const StageSizes& sizes, const SlotBuffers& slot, const HeadTensors& tensors,
               const ScratchBuffers& scratch);

/// Of scratch.wide and the slot's targets: adds the tokens' losses to *loss. Where the stage trains, the
/// output projection's part of backward is done at once, chunk by chunk: slot.normal_gradient, and the
/// embedding's gradient, to which it adds. `scale` multiplies every token's gradient.
void head_loss(Device& device, const StageSizes& sizes, const SlotBuffers& slot, const HeadTensors& tensors,
               const ScratchBuffers& scratch, double* loss, float scale);

/// `gradient` becomes the loss's gradient by the last block's output.
void head_backward(Device& device, const StageSizes& sizes, const SlotBuffers& slot, const Values& gradient,
                   const HeadTensors& tensors, const ScratchBuffers& scratch);

/// The scores of one token, in fp32: where they are.
float* head_scores(Device& device, const StageSizes& sizes, const SlotBuffers& slot, std::size_t token,
                   const HeadTensors& tensors, const ScratchBuffers& scratch);

}  // namespace tombolo::trainer::cuda
