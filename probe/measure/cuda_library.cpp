#include "probe/measure/cuda_library.h"

#include "base/format.h"

namespace tombolo::probe {

std::optional<CudaLibrary> CudaLibrary::load(std::string& problem) {
  auto driver = DynamicLibrary::open({"libcuda.so.1"}, &problem);
  if (!driver) return std::nullopt;
  auto blas = DynamicLibrary::open({"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"}, &problem);
  if (!blas) return std::nullopt;
  CudaLibrary loaded{*std::move(driver), *std::move(blas), {}};
  CudaFunctions& to = loaded.functions;
  const auto take = [&](const DynamicLibrary& library, const char* name, auto*& function) {
    if (library.find(name, function)) return true;
    problem = fmt::format("{} lacks {}", library.name(), name);
    return false;
  };
  const auto cuda = [&](const char* name, auto*& function) { return take(loaded.driver, name, function); };
  const auto cublas = [&](const char* name, auto*& function) { return take(loaded.blas, name, function); };
  const bool complete = cuda("cuInit", to.init) && cuda("cuDeviceGetByPCIBusId", to.device_by_address) &&
                        cuda("cuDeviceGet", to.device_by_ordinal) &&
                        cuda("cuDevicePrimaryCtxRetain", to.retain_context) &&
                        cuda("cuDevicePrimaryCtxRelease_v2", to.release_context) &&
                        cuda("cuCtxSetCurrent", to.set_context) && cuda("cuCtxSynchronize", to.synchronize) &&
                        cuda("cuMemGetInfo_v2", to.memory_info) && cuda("cuMemAlloc_v2", to.allocate) &&
                        cuda("cuMemFree_v2", to.release) && cuda("cuMemcpyHtoD_v2", to.copy_to_device) &&
                        cublas("cublasCreate_v2", to.create) && cublas("cublasDestroy_v2", to.destroy) &&
                        cublas("cublasGemmEx", to.multiply) && cublas("cublasSaxpy_v2", to.add_scaled);
  if (!complete) return std::nullopt;
  return loaded;
}

}  // namespace tombolo::probe
