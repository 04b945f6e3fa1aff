// The few functions of NVIDIA's driver and of cuBLAS that are needed to measure a GPU, loaded at run time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/dynamic_library.h"

namespace tombolo::probe {

/// The functions as in cuda.h and cublas_v2.h, which a machine that only runs programs does not have: handles
/// are pointers, enumerations and devices are int, device memory is a 64-bit address. tests/gpu compares them
/// with the headers where a build has those. They all return 0 for success.
struct CudaFunctions {
  using Address = unsigned long long;

  int (*init)(unsigned flags) = nullptr;
  int (*device_by_address)(int* device, const char* pci_address) = nullptr;
  int (*device_by_ordinal)(int* device, int ordinal) = nullptr;
  int (*retain_context)(void** context, int device) = nullptr;
  int (*release_context)(int device) = nullptr;
  int (*set_context)(void* context) = nullptr;
  int (*synchronize)() = nullptr;
  int (*memory_info)(std::size_t* free, std::size_t* total) = nullptr;
  int (*allocate)(Address* address, std::size_t bytes) = nullptr;
  int (*release)(Address address) = nullptr;
  int (*copy_to_device)(Address to, const void* from, std::size_t bytes) = nullptr;

  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*multiply)(void* handle, int transpose_a, int transpose_b, int m, int n, int k, const void* alpha,
                  const void* a, int a_type, int a_stride, const void* b, int b_type, int b_stride,
                  const void* beta, void* c, int c_type, int c_stride, int compute_type,
                  int algorithm) = nullptr;
  int (*add_scaled)(void* handle, int count, const float* alpha, const float* x, int x_stride, float* y,
                    int y_stride) = nullptr;
};

/// cudaDataType, cublasComputeType_t and the like, whose values never change.
inline constexpr int kCudaFloat32 = 0, kCudaBfloat16 = 14, kCublasCompute32F = 68, kCublasDefault = -1,
                     kCublasNoTranspose = 0;

/// Both libraries, opened, with their functions.
struct CudaLibrary {
  DynamicLibrary driver, blas;
  CudaFunctions functions;
  /// Loads them. Nothing where either library or one of the functions is missing; then `problem` says why.
  static std::optional<CudaLibrary> load(std::string& problem);
};

}  // namespace tombolo::probe
