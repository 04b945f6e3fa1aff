// Which attention a GPU runs.
#pragma once

#include "base/parameter.h"

namespace tombolo::trainer::cuda {

/// TOMBOLO_CUDA_ATTENTION: auto, own or cudnn.
extern const Parameter kCudaAttentionParameter;

}  // namespace tombolo::trainer::cuda
