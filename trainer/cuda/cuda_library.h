// What libtombolo_cuda.so gives to the program that loads it: one function.
#pragma once

#include <cstddef>

namespace tombolo::trainer::cuda {

class Device;

/// Changes with everything that both sides share: Device, the operations, this function.
inline constexpr int kCudaLibraryVersion = 3;
inline constexpr const char* kCudaLibraryName = "libtombolo_cuda.so";
inline constexpr const char* kOpenDeviceFunction = "tombolo_cuda_open_device";

/// The signature of `tombolo_cuda_open_device`, which the library exports as extern "C". Opens the GPU of
/// this number; the caller deletes the device, before it closes the library. `version` is the caller's
/// kCudaLibraryVersion. Null where there is none: then `error` (of `error_bytes`, ended by 0) says what is
/// missing: the library's version where the two differ, the driver, a GPU, its compute capability.
using OpenDeviceFunction = Device*(int version, int number, char* error, std::size_t error_bytes) noexcept;

}  // namespace tombolo::trainer::cuda
