// The environment variables of the CUDA back end.
#pragma once

#include <vector>

#include "base/parameter.h"

namespace tombolo::trainer::cuda {

/// TOMBOLO_CUDA_ATTENTION: auto, own or cudnn.
extern const Parameter kCudaAttentionParameter;

/// TOMBOLO_NCCL_LIBRARY: path, or a name for the system's loader.
extern const Parameter kNcclLibraryParameter;

/// All that the trainer reads.
const std::vector<const Parameter*>& cuda_parameters();

}  // namespace tombolo::trainer::cuda
