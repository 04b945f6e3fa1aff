// A library that stands for NVIDIA's driver and for cuBLAS where there is no GPU: the functions by which the
// probe measures one (probe/measure/cuda_library.h). Products take no work, and what waits for the GPU waits
// for a millisecond, so that all figures are finite. Device memory is the processor's.
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

using Address = unsigned long long;
int some_context = 0, some_handle = 0;  // handles are their addresses

}  // namespace

extern "C" {

int cuInit(unsigned) {
  return 0;
}
int cuDeviceGetByPCIBusId(int*, const char*) {
  return 101;  // CUDA_ERROR_INVALID_DEVICE
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &some_context;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) {
  return 0;
}
int cuCtxSetCurrent(void*) {
  return 0;
}
int cuCtxSynchronize() {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return 0;
}
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{64} << 20;
  return 0;
}
int cuMemAlloc_v2(Address* address, std::size_t bytes) {
  *address = reinterpret_cast<Address>(std::malloc(bytes));
  return *address == 0 ? 2 : 0;  // CUDA_ERROR_OUT_OF_MEMORY
}
int cuMemFree_v2(Address address) {
  std::free(reinterpret_cast<void*>(address));
  return 0;
}
int cuMemcpyHtoD_v2(Address to, const void* from, std::size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
int cublasCreate_v2(void** handle) {
  *handle = &some_handle;
  return 0;
}
int cublasDestroy_v2(void*) {
  return 0;
}
int cublasGemmEx(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
                 const void*, void*, int, int, int, int) {
  return 0;
}
int cublasSaxpy_v2(void*, int, const float*, const float*, int, float*, int) {
  return 0;
}
}
