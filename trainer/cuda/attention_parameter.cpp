#include "trainer/cuda/attention_parameter.h"

namespace tombolo::trainer::cuda {

const Parameter kCudaAttentionParameter{
    "TOMBOLO_CUDA_ATTENTION", ParameterType::kChoice, "auto",
    "Attention kernels of a GPU: own (Tombolo's), cudnn (cuDNN's, for bf16 and heads of a multiple of 8 up "
    "to 128), "
    "or auto: cuDNN's where the library was built with them and libcudnn is there.",
    "auto|own|cudnn"};

}  // namespace tombolo::trainer::cuda
