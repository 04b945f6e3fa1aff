// Checks that the functions which probe/measure/cuda_library.h and topology/system/cuda_library.h declare
// have the shape that CUDA's own headers give them: as many arguments, each of the same size and kind. This
// file is compiled, but never run.
#include <cublas_v2.h>
#include <cuda.h>
#include <cudaTypedefs.h>

#include <type_traits>

#include "probe/measure/cuda_library.h"
#include "tests/gpu/same_shape.h"
#include "topology/system/cuda_library.h"

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

namespace tombolo::topology {
namespace {

#define TOMBOLO_SAME(member, function) \
  static_assert(SameShape<decltype(CudaFunctions::member), decltype(&function)>::value, #function)
TOMBOLO_SAME(init, cuInit);
TOMBOLO_SAME(driver_version, cuDriverGetVersion);
TOMBOLO_SAME(device_count, cuDeviceGetCount);
TOMBOLO_SAME(device, cuDeviceGet);
TOMBOLO_SAME(device_attribute, cuDeviceGetAttribute);
TOMBOLO_SAME(retain_context, cuDevicePrimaryCtxRetain);
TOMBOLO_SAME(release_context, cuDevicePrimaryCtxRelease_v2);
// (CUDA 13's header declares a newer cuCtxCreate alone; the library exports this one, too.)
static_assert(SameShape<decltype(CudaFunctions::create_context), PFN_cuCtxCreate_v3020>::value,
              "cuCtxCreate_v2");
TOMBOLO_SAME(destroy_context, cuCtxDestroy_v2);
TOMBOLO_SAME(current_device, cuCtxGetDevice);
TOMBOLO_SAME(push_context, cuCtxPushCurrent_v2);
TOMBOLO_SAME(pop_context, cuCtxPopCurrent_v2);
TOMBOLO_SAME(exchange_capture_mode, cuThreadExchangeStreamCaptureMode);
TOMBOLO_SAME(flush_nic_writes, cuFlushGPUDirectRDMAWrites);
TOMBOLO_SAME(create_stream, cuStreamCreate);
TOMBOLO_SAME(destroy_stream, cuStreamDestroy_v2);
TOMBOLO_SAME(create_event, cuEventCreate);
TOMBOLO_SAME(record_event, cuEventRecord);
TOMBOLO_SAME(query_event, cuEventQuery);
TOMBOLO_SAME(destroy_event, cuEventDestroy_v2);
TOMBOLO_SAME(allocate_host, cuMemHostAlloc);
TOMBOLO_SAME(free_host, cuMemFreeHost);
TOMBOLO_SAME(device_address, cuMemHostGetDevicePointer_v2);
TOMBOLO_SAME(load_module, cuModuleLoadData);
TOMBOLO_SAME(unload_module, cuModuleUnload);
TOMBOLO_SAME(function, cuModuleGetFunction);
TOMBOLO_SAME(launch, cuLaunchKernel);
TOMBOLO_SAME(copy_from_device, cuMemcpyDtoHAsync_v2);
TOMBOLO_SAME(copy_to_device, cuMemcpyHtoDAsync_v2);
TOMBOLO_SAME(pointer_attribute, cuPointerGetAttribute);
TOMBOLO_SAME(retain_allocation, cuMemRetainAllocationHandle);
TOMBOLO_SAME(release_allocation, cuMemRelease);
TOMBOLO_SAME(error_name, cuGetErrorName);
#undef TOMBOLO_SAME

template <typename Ours, typename Theirs>
constexpr bool same_value(Ours ours, Theirs theirs) {
  return static_cast<long>(ours) == static_cast<long>(theirs);
}
static_assert(same_value(CudaResult::kInvalidValue, CUDA_ERROR_INVALID_VALUE) &&
              same_value(CudaResult::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY) &&
              same_value(CudaResult::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED) &&
              same_value(CudaResult::kDeinitialized, CUDA_ERROR_DEINITIALIZED) &&
              same_value(CudaResult::kNoDevice, CUDA_ERROR_NO_DEVICE) &&
              same_value(CudaResult::kInvalidDevice, CUDA_ERROR_INVALID_DEVICE) &&
              same_value(CudaResult::kInvalidContext, CUDA_ERROR_INVALID_CONTEXT) &&
              same_value(CudaResult::kNotReady, CUDA_ERROR_NOT_READY) &&
              same_value(CudaResult::kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED) &&
              same_value(CudaResult::kCaptureUnsafe, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
static_assert(same_value(CudaCaptureMode::kRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED) &&
              same_value(CudaMemoryType::kDevice, CU_MEMORYTYPE_DEVICE) &&
              same_value(CudaPointerAttribute::kMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE) &&
              same_value(CudaPointerAttribute::kDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) &&
              same_value(CudaDeviceAttribute::kGpuDirectRdma,
                         CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED) &&
              same_value(CudaDeviceAttribute::kDmaBuf, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED));
static_assert(kCudaStreamNonBlocking == CU_STREAM_NON_BLOCKING &&
              kCudaEventDisableTiming == CU_EVENT_DISABLE_TIMING &&
              kCudaHostAllocPortable == CU_MEMHOSTALLOC_PORTABLE &&
              kCudaHostAllocDeviceMap == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(sizeof(CudaFunctions::Address) == sizeof(CUdeviceptr));

}  // namespace
}  // namespace tombolo::topology
