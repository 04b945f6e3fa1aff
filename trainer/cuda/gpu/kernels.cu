// All kernels but attention's, compiled for the GPU.
#include "trainer/cuda/gpu/cross_entropy.cuh"
#include "trainer/cuda/gpu/elementwise.cuh"
#include "trainer/cuda/gpu/embed.cuh"
#include "trainer/cuda/gpu/epilogue.cuh"
#include "trainer/cuda/gpu/norm.cuh"
