// Checks that the functions which probe/measure/cuda_library.h declares have the shape that CUDA's own
// headers give them: as many arguments, each of the same size and kind. This file is compiled, but never run.
#include <cublas_v2.h>
#include <cuda.h>

#include <type_traits>

#include "probe/measure/cuda_library.h"
#include "tests/gpu/same_shape.h"

namespace tombolo::probe {
namespace {

#define TOMBOLO_SAME(member, function) \
  static_assert(SameShape<decltype(CudaFunctions::member), decltype(&function)>::value, #function)
TOMBOLO_SAME(init, cuInit);
TOMBOLO_SAME(device_by_address, cuDeviceGetByPCIBusId);
TOMBOLO_SAME(device_by_ordinal, cuDeviceGet);
TOMBOLO_SAME(release_context, cuDevicePrimaryCtxRelease_v2);
TOMBOLO_SAME(synchronize, cuCtxSynchronize);
TOMBOLO_SAME(memory_info, cuMemGetInfo_v2);
TOMBOLO_SAME(allocate, cuMemAlloc_v2);
TOMBOLO_SAME(release, cuMemFree_v2);
TOMBOLO_SAME(copy_to_device, cuMemcpyHtoD_v2);
TOMBOLO_SAME(retain_context, cuDevicePrimaryCtxRetain);
TOMBOLO_SAME(set_context, cuCtxSetCurrent);
TOMBOLO_SAME(create, cublasCreate_v2);
TOMBOLO_SAME(destroy, cublasDestroy_v2);
TOMBOLO_SAME(add_scaled, cublasSaxpy_v2);
#undef TOMBOLO_SAME

// In C++ a second cublasGemmEx takes the older type of computation; the library exports this one.
using GemmEx = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                                  const void*, const void*, cudaDataType, int, const void*, cudaDataType, int,
                                  const void*, void*, cudaDataType, int, cublasComputeType_t,
                                  cublasGemmAlgo_t);
static_assert(std::is_same_v<decltype(static_cast<GemmEx>(&cublasGemmEx)), GemmEx>);
static_assert(SameShape<decltype(CudaFunctions::multiply), GemmEx>::value, "cublasGemmEx");

static_assert(kCudaFloat32 == CUDA_R_32F && kCudaBfloat16 == CUDA_R_16BF);
static_assert(kCublasCompute32F == CUBLAS_COMPUTE_32F && kCublasDefault == CUBLAS_GEMM_DEFAULT);
static_assert(kCublasNoTranspose == CUBLAS_OP_N && CUDA_SUCCESS == 0 && CUBLAS_STATUS_SUCCESS == 0);
static_assert(sizeof(CudaFunctions::Address) == sizeof(CUdeviceptr));

}  // namespace
}  // namespace tombolo::probe
