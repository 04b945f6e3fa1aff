// The kernels, one for each type. They are compiled into bytes that libtombolo carries (kernel_image.cpp).
#include "collectives/gpu/reduction.cuh"

using namespace tombolo::collectives;

#define TOMBOLO_REDUCTION(name, type)                                                    \
  extern "C" __global__ void __launch_bounds__(gpu::kReductionThreads)                   \
      tombolo_reduce_##name(const gpu::ReductionArguments given) {                       \
    gpu::reduce_share<type>(given, std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, \
                            std::uint64_t{gridDim.x} * blockDim.x);                      \
  }

TOMBOLO_REDUCTION(int8, std::int8_t)
TOMBOLO_REDUCTION(uint8, std::uint8_t)
TOMBOLO_REDUCTION(int16, std::int16_t)
TOMBOLO_REDUCTION(uint16, std::uint16_t)
TOMBOLO_REDUCTION(int32, std::int32_t)
TOMBOLO_REDUCTION(uint32, std::uint32_t)
TOMBOLO_REDUCTION(int64, std::int64_t)
TOMBOLO_REDUCTION(uint64, std::uint64_t)
TOMBOLO_REDUCTION(half, Float16)
TOMBOLO_REDUCTION(bfloat16, Bfloat16)
TOMBOLO_REDUCTION(float, float)
TOMBOLO_REDUCTION(double, double)
TOMBOLO_REDUCTION(f8e4m3, Float8E4m3)
TOMBOLO_REDUCTION(f8e5m2, Float8E5m2)
