// Where kernels are launched, in a form that needs no CUDA header.
#pragma once

struct CUstream_st;

namespace tombolo::trainer::cuda::gpu {

struct Launcher {
  CUstream_st* stream = nullptr;  ///< a cudaStream_t
  int processors = 1;             ///< of the GPU (SMs): as many blocks as keep them busy
};

}  // namespace tombolo::trainer::cuda::gpu
