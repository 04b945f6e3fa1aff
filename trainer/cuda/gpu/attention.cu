// Our own attention kernels, compiled for the GPU.
#include "trainer/cuda/gpu/attention.cuh"
