// One transformer block: what it reads, what it keeps for backward, and its two passes.
#pragma once

#include <cstddef>

#include "compute/gemm.h"
#include "planner/model/job.h"
#include "trainer/cpu/arena.h"
#include "trainer/cpu/attention.h"
#include "trainer/cpu/kernels.h"
#include "trainer/model/stage_parameters.h"

namespace tombolo::trainer::cpu {

/// A block's tensors, in the parameter or in the gradient arena.
struct LayerTensors {
  LayerTensors(float* arena, const StageParameters& parameters, int layer);
  float *norm1_weight, *norm1_bias, *qkv_weight, *qkv_bias, *projection_weight, *projection_bias,
      *norm2_weight, *norm2_bias, *mlp_weight, *mlp_bias, *mlp_projection_weight, *mlp_projection_bias;
};

/// What the forward pass leaves for the backward pass. N = rows x context; matrices are N x width unless said
/// otherwise.
struct LayerActivations {
  /// What all layers and micro-batches share because backward computes it again; the rest is null.
  static LayerActivations shared(Carver& carver, const AttentionShape& shape, planner::Recompute recompute);
  /// One layer's own, and what is shared.
  LayerActivations(Carver& carver, const AttentionShape& shape, planner::Recompute recompute,
                   const LayerActivations& shared);

  float *normal1 = nullptr, *mean1 = nullptr, *inverse1 = nullptr;
  float* qkv = nullptr;            ///< N x 3 width
  float* probabilities = nullptr;  ///< rows x heads x context x context
  float *attended = nullptr, *middle = nullptr, *normal2 = nullptr, *mean2 = nullptr, *inverse2 = nullptr;
  float *mlp = nullptr, *activated = nullptr;  ///< N x 4 width
  float* out = nullptr;

 private:
  LayerActivations() = default;
  void take_all_but_probabilities_and_out(Carver& carver, const AttentionShape& shape);
};

/// Scratch memory that all layers and micro-batches share.
struct LayerScratch {
  LayerScratch(Carver& carver, const AttentionShape& shape);
  float* wide;    ///< N x 4 width
  float* narrow;  ///< N x width
  float* scores;
};

/// `multiply` makes the products of the linear layers: compute::multiply, or one of less precision.
void layer_forward(const LayerActivations& kept, const float* in, const LayerTensors& parameters,
                   const AttentionShape& shape, const Kernels& kernels,
                   decltype(&compute::multiply) multiply) noexcept;

/// Computes again what layer_forward has left in memory that is shared.
void layer_recompute(const LayerActivations& kept, const float* in, const LayerTensors& parameters,
                     const AttentionShape& shape, const Kernels& kernels,
                     decltype(&compute::multiply) multiply, planner::Recompute recompute) noexcept;

/// `gradient` comes in as the loss's gradient by the block's output and leaves as that by its input.
void layer_backward(float* gradient, const LayerTensors& gradients, const LayerActivations& kept,
                    const float* in, const LayerTensors& parameters, const LayerScratch& scratch,
                    const AttentionShape& shape, const Kernels& kernels,
                    decltype(&compute::multiply) multiply) noexcept;

}  // namespace tombolo::trainer::cpu
