// The driver's part of CUDA, loaded at run time: what is needed to tell GPU memory from host memory, and to
// copy between the two and launch kernels of our own beside the work of the program that owns the GPU.
//
// Nothing here waits for a GPU, but that making things may: there are only copies and kernels that are queued
// and events that are asked whether they have happened, because a call that waits for the GPU may wait for a
// kernel that waits for the network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/dynamic_library.h"

namespace tombolo::topology {

/// CUDA's results, as far as they are told apart (CUresult).
enum class CudaResult : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,  ///< the process is exiting, and the driver has shut down
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kNotReady = 600,
  kContextIsDestroyed = 709,
  kCaptureUnsafe = 900,
};

/// Whether a capture of a CUDA graph in any thread forbids calls that might break it (CUstreamCaptureMode).
enum class CudaCaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

enum class CudaMemoryType : unsigned { kUnknown = 0, kHost = 1, kDevice = 2, kArray = 3, kUnified = 4 };
enum class CudaPointerAttribute : int { kMemoryType = 2, kDeviceOrdinal = 9 };
enum class CudaDeviceAttribute : int {
  kGpuDirectRdma = 116,
  kFlushWritesOptions = 117,  ///< of NICs' writes; bit 0: flush_nic_writes()
  kWritesOrdering = 118,      ///< kCudaOrderedForOwner and more: they need no flush
  kDmaBuf = 124,
};

inline constexpr int kCudaFlushByHost = 1, kCudaOrderedForOwner = 100;
inline constexpr unsigned kCudaFlushCurrentContext = 0, kCudaFlushToOwner = 100;
inline constexpr unsigned kCudaStreamNonBlocking = 1;  ///< not ordered with the default stream
inline constexpr unsigned kCudaEventDisableTiming = 2;
inline constexpr unsigned kCudaHostAllocPortable = 1;   ///< pinned for every context
inline constexpr unsigned kCudaHostAllocDeviceMap = 2;  ///< kernels may use it: device_address()

/// The functions, by the library's names without "cu". All are set once it is loaded, but for those that say
/// so.
struct CudaFunctions {
  using Address = unsigned long long;  // CUdeviceptr
  using Device = int;
  using Context = void*;
  using Stream = void*;
  using Event = void*;
  using Allocation = unsigned long long;  // CUmemGenericAllocationHandle
  using Module = void*;
  using Function = void*;

  explicit CudaFunctions(DynamicLibrary opened) : library(std::move(opened)) {}

  DynamicLibrary library;
  CudaResult (*init)(unsigned) = nullptr;
  CudaResult (*driver_version)(int*) = nullptr;
  CudaResult (*device_count)(int*) = nullptr;
  CudaResult (*device)(Device*, int) = nullptr;
  CudaResult (*device_attribute)(int*, CudaDeviceAttribute, Device) = nullptr;
  CudaResult (*retain_context)(Context*, Device) = nullptr;
  CudaResult (*release_context)(Device) = nullptr;
  CudaResult (*create_context)(Context*, unsigned, Device) = nullptr;  ///< and pushes it on the thread
  CudaResult (*destroy_context)(Context) = nullptr;
  CudaResult (*current_device)(Device*) = nullptr;  ///< of the calling thread's context
  CudaResult (*push_context)(Context) = nullptr;
  CudaResult (*pop_context)(Context*) = nullptr;
  CudaResult (*exchange_capture_mode)(CudaCaptureMode*) = nullptr;  ///< of the calling thread
  CudaResult (*create_stream)(Stream*, unsigned) = nullptr;
  CudaResult (*destroy_stream)(Stream) = nullptr;
  CudaResult (*create_event)(Event*, unsigned) = nullptr;
  CudaResult (*record_event)(Event, Stream) = nullptr;
  CudaResult (*query_event)(Event) = nullptr;
  CudaResult (*destroy_event)(Event) = nullptr;
  CudaResult (*allocate_host)(void**, std::size_t, unsigned) = nullptr;
  CudaResult (*free_host)(void*) = nullptr;
  CudaResult (*device_address)(Address*, void*, unsigned) = nullptr;  ///< of pinned memory; no flags
  CudaResult (*load_module)(Module*, const void*) = nullptr;          ///< may wait for the GPU
  CudaResult (*unload_module)(Module) = nullptr;
  CudaResult (*function)(Function*, Module, const char*) = nullptr;
  /// Blocks and their threads in three dimensions, bytes of shared memory, the addresses of the parameters.
  CudaResult (*launch)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream,
                       void**, void**) = nullptr;
  CudaResult (*copy_from_device)(void*, Address, std::size_t, Stream) = nullptr;
  CudaResult (*copy_to_device)(Address, const void*, std::size_t, Stream) = nullptr;
  CudaResult (*pointer_attribute)(void*, CudaPointerAttribute, Address) = nullptr;
  /// Succeeds where the address lies in memory of cuMemCreate, which belongs to no context.
  CudaResult (*retain_allocation)(Allocation*, void*) = nullptr;
  CudaResult (*release_allocation)(Allocation) = nullptr;
  /// What NICs have written into the context's GPU is then seen by it. It waits for the bus, not for kernels.
  /// Null in drivers before CUDA 11.3.
  CudaResult (*flush_nic_writes)(unsigned target, unsigned scope) = nullptr;
  CudaResult (*error_name)(CudaResult, const char**) = nullptr;

  /// Loads the driver's library and initialises it. Null where it is absent, lacks a function, or finds no
  /// GPU;
  /// `*problem` then says why.
  static std::shared_ptr<const CudaFunctions> load(std::string* problem);

  /// Those of the driver that the program has loaded for itself, in a process that would not load it
  /// otherwise. Nothing is initialised: that is the program's to do. Null where there is none, or it lacks a
  /// function.
  static std::shared_ptr<const CudaFunctions> of_program();

  /// "CUDA_ERROR_OUT_OF_MEMORY (2)".
  std::string describe(CudaResult result) const;
};

}  // namespace tombolo::topology
