// Where everything of one stage lies in the device's and in page-locked host memory.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/cuda/memory/memory_plan.h"
#include "trainer/cuda/operations/operation.h"
#include "trainer/model/stage_compute.h"

namespace tombolo::trainer::cuda {

class Device;

/// What a stage on a device can do differently, beside StageOptions.
struct CudaStageOptions {
  /// Each part of a pass is captured once and then launched as one: less work for the host, the same bits.
  bool graphs = true;
  /// Tokens whose scores of the whole vocabulary are held at once; 0: what fits into kScoreBytes.
  std::size_t chunk_tokens = 0;
};
inline constexpr std::size_t kScoreBytes = std::size_t{256} << 20;

/// The numbers that fix every buffer's size.
struct StageSizes {
  StageSizes(const StageOptions& options, const CudaStageOptions& cuda, const StageParameters& layout,
             const Device& device);

  std::size_t rows, context, heads, head_size, width, vocabulary, padded_vocabulary;
  std::size_t tokens;  ///< of a micro-batch
  std::size_t layers, in_flight;
  std::size_t chunk;             ///< tokens whose scores are held at once
  std::size_t gradient_buffers;  ///< gradients of micro-batches that are on their way in, through and out
  std::size_t arena;             ///< floats
  std::size_t attention_scratch, workspace;
  Element element, moments;
  planner::Recompute recompute;
  bool first, last, training, exchanges;

  std::size_t boundary() const noexcept { return tokens * width; }
  std::size_t boundary_bytes() const noexcept { return boundary() * element_bytes(element); }
  /// Entries of the block of tokens that one copy brings; where its parts begin.
  std::size_t token_block() const noexcept { return 4 * tokens + 1; }
  std::size_t targets_begin() const noexcept { return tokens; }
  std::size_t order_begin() const noexcept { return 2 * tokens; }
  std::size_t runs_begin() const noexcept { return 3 * tokens; }
};

/// What forward leaves of one transformer block for backward; with full recomputation all but `out` is shared
/// by all blocks. N = rows x context; matrices are N x width unless said otherwise.
struct LayerBuffers {
  Values normal1, qkv /** N x 3 width */, attended, middle, normal2, mlp /** N x 4 width, before GELU */,
      activated /** N x 4 width */, out;
  float *mean1, *inverse1, *log_sum, *mean2, *inverse2;
};

/// One micro-batch in flight.
struct SlotBuffers {
  std::int32_t* tokens;  ///< the block of tokens, targets, order and runs
  Values in;
  std::vector<LayerBuffers> layers;
  float *mean, *inverse, *losses;  ///< last stage
  Values normal_gradient;          ///< last stage: the loss's gradient by the final norm's output
};

/// Shared by all layers and micro-batches.
struct ScratchBuffers {
  Values wide;       ///< N x 4 width
  Values narrow;     ///< N x width
  Values projected;  ///< N x width: what a block adds to the residual, until the next norm adds it
  Values scores;     ///< chunk x padded vocabulary
  float* score_row;  ///< padded vocabulary: one row of them in fp32
  float* statistics;
  float *bias, *norm;
  std::byte* attention;
  std::byte* workspace;  ///< lent to the compute stream
  double* sum;           ///< kSumScratch
};

/// Constants of one optimizer step, as they travel.
struct StepConstants {
  AdamWStep step;
  std::int64_t number;
};

struct DeviceBuffers {
  DeviceBuffers(PlanCarver carver, const StageSizes& sizes, std::size_t ranges);

  float* master = nullptr;  ///< parameters in fp32
  Values copy;              ///< parameters in bf16; null in fp32
  // Null where the stage does not train.
  float* gradients = nullptr;
  Values first_moment, second_moment;
  Range* ranges = nullptr;
  StepConstants* step = nullptr;
  float* state = nullptr;  ///< moments in fp32 while they are read or written; null where they are that
  double *loss = nullptr, *squares = nullptr;
  std::vector<SlotBuffers> slots;
  std::vector<Values> boundary_gradients;
  ScratchBuffers scratch;

  /// What products and norms read.
  Values parameters() const noexcept {
    if (copy.at != nullptr) return copy;
    return {reinterpret_cast<std::byte*>(master), Element::kFloat32};
  }
};

/// Page-locked memory of the host.
struct HostBuffers {
  HostBuffers(PlanCarver carver, const StageSizes& sizes, std::size_t ranges);

  std::vector<std::byte*> inputs, outputs, boundary_gradients;
  std::vector<std::int32_t*> tokens;  ///< a ring, so that the host may run ahead
  float* gradients;                   ///< the arena's mirror
  float* state;
  float* scores;
  Range* ranges;
  std::vector<StepConstants*> steps;  ///< a ring
  double* scalar;
};

/// Floats of state that are read or written at once. (16 more are there, for pieces that begin anywhere.)
inline constexpr std::size_t kStatePiece = std::size_t{1} << 20;

/// `values` from its element `count` on.
inline Values from_element(Values values, std::size_t count) noexcept {
  return {values.at + count * element_bytes(values.element), values.element};
}
/// fp32 numbers as operations take them.
inline Values fp32(float* at) noexcept {
  return {reinterpret_cast<std::byte*>(at), Element::kFloat32};
}

}  // namespace tombolo::trainer::cuda
