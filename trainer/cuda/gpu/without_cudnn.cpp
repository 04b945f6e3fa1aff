// Takes cudnn_attention.cpp's place where the build found no headers of cuDNN and of its C++ front end.
#include "trainer/cuda/gpu/attention_library.h"

namespace tombolo::trainer::cuda::gpu {

std::unique_ptr<AttentionLibrary> open_cudnn_attention(std::string& problem) {
  problem =
      "this build has no cuDNN: CMake found no cudnn.h or no cudnn_frontend.h (where they are can be given "
      "as "
      "TOMBOLO_CUDNN_ROOT)";
  return nullptr;
}

}  // namespace tombolo::trainer::cuda::gpu
