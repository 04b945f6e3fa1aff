// trainer/cuda/ owns the CUDA back end: see device.h. This file: one pipeline stage on a device.
#pragma once

#include <functional>
#include <memory>

#include "trainer/cuda/device.h"
#include "trainer/cuda/memory/stage_buffers.h"
#include "trainer/model/stage_compute.h"

namespace tombolo::trainer::cuda {

/// A stage on `device`, on which nothing has been done yet; the stage keeps it alive. In fp32, or with
/// StageOptions::precision bf16: activations and the parameters that products read in bf16, sums, gradients
/// of parameters and the parameters that the optimizer changes in fp32. All memory is taken here, in one
/// piece of the device's and one of page-locked host memory.
///
/// Selective recomputation changes nothing: attention never keeps its weights. With full recomputation a
/// block keeps its output alone. Scores of the vocabulary are held for a chunk of tokens at a time.
///
/// forward on the last stage returns at once. backward on the first returns once what it was given has been
/// copied. Gradients of blocks that are done travel to the host while backward goes on.
///
/// The same calls give the same bits, with and without graphs, recomputation and micro-batches in flight.
/// Throws kInvalidUsage for shapes out of range, and what the device throws.
std::unique_ptr<StageCompute> make_cuda_stage(std::shared_ptr<Device> device, const StageOptions& options,
                                              const CudaStageOptions& cuda = {});

/// The back end of devices that `open` opens: one for each stage.
StageFactory cuda_stages(std::function<std::shared_ptr<Device>()> open, const CudaStageOptions& cuda = {});

}  // namespace tombolo::trainer::cuda
