// The device memory of a stage that the bundled trainer runs on a GPU: what its memory plan takes, piece by
// piece. tests/agreement/ holds it to the trainer's own plan.
#pragma once

#include <cstdint>

#include "planner/model/job.h"
#include "planner/plan/plan.h"

namespace tombolo::planner {

/// One stage of a pipeline on a GPU.
struct CudaStage {
  int layers = 1;
  int rows = 1;       ///< of a micro-batch
  int in_flight = 1;  ///< micro-batches whose activations are held at once
  bool first = true, last = true;
};

/// Bytes on the device, each piece rounded up to 256, with C the context, N = rows x C tokens, W the width,
/// V the vocabulary padded to a multiple of 128, e the bytes of a value and A the stage's parameters, each
/// tensor rounded up to 16:
///  * parameters: A in fp32, and once more in bf16 where e is 2
///  * gradients: A in fp32
///  * optimizer: two moments of A, and constants per tensor
///  * activations, per micro-batch in flight: the tokens (4 N + 1 words, on the ends of the pipeline), the
///    stage's input (N W e); per layer 16 N W e and (4 + heads) N statistics in fp32, or with full
///    recomputation N W e; on the last stage 3 N statistics and the final norm's gradient
///  * buffers: 6 N W e in which a block works, what is computed again of one layer, up to three boundary
///    gradients, scratch of sums and of attention, the 32 MiB in which cuBLASLt multiplies, on the last stage
///    the scores of a chunk of tokens, up to 256 MiB
/// Attention's scratch is that of the trainer's own kernel. What CUDA and its libraries take for themselves
/// is no part of the plan: see Profile::overhead_bytes, which is added to the buffers. Nothing may overflow:
/// see rank_memory().
RankMemory cuda_stage_memory(const Job& job, const CudaStage& stage);

/// The part of `activations` that one layer takes for one micro-batch.
std::uint64_t cuda_layer_bytes(const Job& job, int rows);

}  // namespace tombolo::planner
