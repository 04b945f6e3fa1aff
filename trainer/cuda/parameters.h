// The environment variables of the CUDA back end.
#pragma once

#include <vector>

#include "base/parameter.h"

namespace tombolo::trainer::cuda {

/// TOMBOLO_CUDA_ATTENTION: auto, own or cudnn.
extern const Parameter kCudaAttentionParameter;

/// All that the trainer reads.
const std::vector<const Parameter*>& cuda_parameters();

}  // namespace tombolo::trainer::cuda
