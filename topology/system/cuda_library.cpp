#include "topology/system/cuda_library.h"

#include <link.h>

#include <string_view>

#include "base/error.h"

namespace tombolo::topology {
namespace {

bool find_all(CudaFunctions& all) {
  const DynamicLibrary& library = all.library;
  library.find("cuFlushGPUDirectRDMAWrites", all.flush_nic_writes);
  return library.find("cuInit", all.init) && library.find("cuDriverGetVersion", all.driver_version) &&
         library.find("cuDeviceGetCount", all.device_count) && library.find("cuDeviceGet", all.device) &&
         library.find("cuDeviceGetAttribute", all.device_attribute) &&
         library.find("cuDevicePrimaryCtxRetain", all.retain_context) &&
         library.find("cuDevicePrimaryCtxRelease_v2", all.release_context) &&
         library.find("cuCtxCreate_v2", all.create_context) &&
         library.find("cuCtxDestroy_v2", all.destroy_context) &&
         library.find("cuCtxGetDevice", all.current_device) &&
         library.find("cuCtxPushCurrent_v2", all.push_context) &&
         library.find("cuCtxPopCurrent_v2", all.pop_context) &&
         library.find("cuThreadExchangeStreamCaptureMode", all.exchange_capture_mode) &&
         library.find("cuStreamCreate", all.create_stream) &&
         library.find("cuStreamDestroy_v2", all.destroy_stream) &&
         library.find("cuEventCreate", all.create_event) && library.find("cuEventRecord", all.record_event) &&
         library.find("cuEventQuery", all.query_event) &&
         library.find("cuEventDestroy_v2", all.destroy_event) &&
         library.find("cuMemHostAlloc", all.allocate_host) && library.find("cuMemFreeHost", all.free_host) &&
         library.find("cuMemHostGetDevicePointer_v2", all.device_address) &&
         library.find("cuModuleLoadData", all.load_module) &&
         library.find("cuModuleUnload", all.unload_module) &&
         library.find("cuModuleGetFunction", all.function) && library.find("cuLaunchKernel", all.launch) &&
         library.find("cuMemcpyDtoHAsync_v2", all.copy_from_device) &&
         library.find("cuMemcpyHtoDAsync_v2", all.copy_to_device) &&
         library.find("cuPointerGetAttribute", all.pointer_attribute) &&
         library.find("cuMemRetainAllocationHandle", all.retain_allocation) &&
         library.find("cuMemRelease", all.release_allocation) &&
         library.find("cuGetErrorName", all.error_name);
}

/// Whether the process has loaded the driver's library.
bool has_driver() {
  return ::dl_iterate_phdr(
             [](dl_phdr_info* object, std::size_t, void*) {
               return std::string_view(object->dlpi_name).ends_with("/libcuda.so.1") ? 1 : 0;
             },
             nullptr) != 0;
}

}  // namespace

std::shared_ptr<const CudaFunctions> CudaFunctions::of_program() {
  if (!has_driver()) return nullptr;
  auto library = DynamicLibrary::open({"libcuda.so.1"});
  if (!library) return nullptr;
  auto functions = std::make_shared<CudaFunctions>(*std::move(library));
  return find_all(*functions) ? functions : nullptr;
}

std::shared_ptr<const CudaFunctions> CudaFunctions::load(std::string* problem) {
  auto library = DynamicLibrary::open({"libcuda.so.1"}, problem);
  if (!library) return nullptr;
  auto functions = std::make_shared<CudaFunctions>(*std::move(library));
  std::string why;
  if (!find_all(*functions)) {
    why = "libcuda.so.1 lacks functions that every driver since CUDA 11.0 has";
  } else if (const CudaResult started = functions->init(0); started != CudaResult::kSuccess) {
    why = fmt::format("the CUDA driver does not start: {}", functions->describe(started));
  } else {
    int count = 0;
    const CudaResult counted = functions->device_count(&count);
    if (counted == CudaResult::kSuccess && count > 0) return functions;
    why = counted == CudaResult::kSuccess
              ? std::string("the CUDA driver finds no GPU")
              : fmt::format("the CUDA driver does not count its GPUs: {}", functions->describe(counted));
  }
  if (problem != nullptr) *problem = std::move(why);
  return nullptr;
}

std::string CudaFunctions::describe(CudaResult result) const {
  const char* name = nullptr;
  if (error_name(result, &name) != CudaResult::kSuccess || name == nullptr) name = "CUDA error";
  return fmt::format("{} ({})", name, static_cast<int>(result));
}

}  // namespace tombolo::topology
