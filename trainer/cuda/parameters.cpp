#include "trainer/cuda/parameters.h"

namespace tombolo::trainer::cuda {

const Parameter kCudaAttentionParameter{
    "TOMBOLO_CUDA_ATTENTION", ParameterType::kChoice, "auto",
    "Attention kernels of a GPU that trains: own (Tombolo's), cudnn (cuDNN's; bf16 and heads up to 128), or "
    "auto: cuDNN's for the shapes that it takes, where the library was built with it and libcudnn is there.",
    "auto|own|cudnn"};

const Parameter kNcclLibraryParameter{"TOMBOLO_NCCL_LIBRARY", ParameterType::kText, "libnccl.so.2",
                                      "NCCL, which sums the gradients of GPUs that train: a path, or a name "
                                      "that the system's loader finds. Loaded "
                                      "at run time, where --reduce allows it."};

const std::vector<const Parameter*>& cuda_parameters() {
  static const std::vector<const Parameter*> all{&kCudaAttentionParameter, &kNcclLibraryParameter};
  return all;
}

}  // namespace tombolo::trainer::cuda
