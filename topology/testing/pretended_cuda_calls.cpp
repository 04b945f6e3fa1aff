// The functions of the CUDA driver's library, as the pretended one answers them.
#include <cstdlib>

#include "topology/testing/pretended_cuda_driver.h"

namespace tombolo::topology::test {

using namespace cuda_driver;

extern "C" {

int cuInit(unsigned flags) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (!all.options.starts || flags != 0) return kNotInitialized;
  all.initialised = true;
  return kDone;
}

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return kDone;
}

int cuDeviceGetCount(int* count) {
  const std::lock_guard guard(driver().lock);
  *count = driver().options.gpus;
  return kDone;
}

int cuDeviceGet(int* device, int ordinal) {
  const std::lock_guard guard(driver().lock);
  if (ordinal < 0 || ordinal >= driver().options.gpus) return kInvalidDevice;
  *device = ordinal;
  return kDone;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
  const std::lock_guard guard(driver().lock);
  if (attribute == 116) {
    *value = driver().options.gpu_direct_rdma ? 1 : 0;
  } else if (attribute == 117) {
    *value = driver().options.flushes_writes ? 1 : 0;
  } else if (attribute == 118) {
    *value = driver().options.ordered_writes ? 100 : 0;
  } else if (attribute == 124) {
    *value = driver().options.dma_buf ? 1 : 0;
  } else {
    return kInvalidValue;
  }
  return kDone;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (device < 0 || device >= all.options.gpus) return kInvalidDevice;
  Context* const primary = all.primary_of(device);
  ++primary->retained;
  *context = primary;
  return kDone;
}

int cuCtxCreate_v2(void** context, unsigned flags, int device) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (flags != 0 || device < 0 || device >= all.options.gpus) return kInvalidValue;
  if (!all.options.contexts) return kOutOfMemory;
  all.contexts.push_back(std::make_unique<Context>(Context{device, 1, false}));
  *context = all.contexts.back().get();
  this_thread.contexts.push_back(all.contexts.back().get());
  return kDone;
}

int cuCtxDestroy_v2(void* context) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (all.in_child("cuCtxDestroy")) return kNotInitialized;
  const auto is_it = [&](const auto& one) { return one.get() == context && !one->is_primary; };
  if (std::ranges::none_of(all.contexts, is_it))
    return all.breach(kInvalidContext, "a context was destroyed that was not made");
  const auto in_it = [&](const auto& one) { return one->context == context; };
  if (std::ranges::any_of(all.streams, in_it) || std::ranges::any_of(all.events, in_it))
    all.breaches.emplace_back("a context was destroyed with its streams or events");
  std::erase_if(all.contexts, is_it);
  return kDone;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (all.in_child("cuDevicePrimaryCtxRelease")) return kNotInitialized;
  for (const auto& one : all.contexts)
    if (one->gpu == device && one->is_primary && one->retained-- > 0) return kDone;
  return all.breach(kInvalidContext, "a context was released that was not retained");
}

int cuCtxGetDevice(int* device) {
  if (this_thread.contexts.empty()) return kInvalidContext;
  *device = this_thread.contexts.back()->gpu;
  return kDone;
}

int cuCtxPushCurrent_v2(void* context) {
  this_thread.contexts.push_back(static_cast<Context*>(context));
  return kDone;
}

int cuCtxPopCurrent_v2(void** context) {
  if (this_thread.contexts.empty()) {
    const std::lock_guard guard(driver().lock);
    return driver().breach(kInvalidContext, "a context was popped that nobody pushed");
  }
  if (context != nullptr) *context = this_thread.contexts.back();
  this_thread.contexts.pop_back();
  return kDone;
}

int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(this_thread.capture_mode, *mode);
  return kDone;
}

int cuStreamCreate(void** stream, unsigned flags) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  const Context* context = all.checked("cuStreamCreate");
  if (context == nullptr) return kInvalidContext;
  if (flags != 1) return all.breach(kInvalidValue, "a stream that waits for the default stream");
  if (all.making_forbidden) return all.breach(kOutOfMemory, "a stream was made after set-up");
  all.streams.push_back(std::make_unique<Stream>());
  all.streams.back()->context = context;
  *stream = all.streams.back().get();
  return kDone;
}

int cuStreamDestroy_v2(void* stream) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (all.checked("cuStreamDestroy") == nullptr) return kInvalidContext;
  Stream* found = all.find(stream);
  if (found == nullptr) return all.breach(kInvalidValue, "a stream was destroyed that does not exist");
  while (!found->queue.empty()) all.carry_out(*found);  // the driver lets a stream finish
  std::erase_if(all.streams, [&](const auto& one) { return one.get() == stream; });
  return kDone;
}

int cuEventCreate(void** event, unsigned flags) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  const Context* context = all.checked("cuEventCreate");
  if (context == nullptr) return kInvalidContext;
  if (flags != 2) return all.breach(kInvalidValue, "an event that keeps time, and is slow");
  if (all.making_forbidden) return all.breach(kOutOfMemory, "an event was made after set-up");
  all.events.push_back(std::make_unique<Event>());
  all.events.back()->context = context;
  *event = all.events.back().get();
  return kDone;
}

int cuEventRecord(void* event, void* stream) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  const Context* context = all.checked("cuEventRecord");
  if (context == nullptr) return kInvalidContext;
  if (all.failure != 0) return all.failure;
  Event* found = all.find_event(event);
  Stream* on = all.find(stream);
  if (stream == nullptr && all.options.default_stream) on = all.programs_stream(context, true);
  if (found == nullptr || on == nullptr || found->context != context || on->context != context)
    return all.breach(kInvalidValue,
                      "an event was recorded on a stream of another context, or the default one");
  if (found->recorded != found->happened)
    return all.breach(kInvalidValue, "an event was recorded anew before it had happened");
  if (on->is_programs && all.capturing) return kCaptureUnsafe;
  Command command;
  command.event = found;
  command.recording = ++found->recorded;
  on->queue.push_back(command);
  if (all.options.pace == PretendedPace::kEarly) all.drain();
  return kDone;
}

int cuEventQuery(void* event) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (all.in_child("cuEventQuery")) return kNotInitialized;
  if (this_thread.capture_mode != kRelaxed)
    return all.breach(kCaptureUnsafe,
                      "cuEventQuery breaks a capture in another thread: the mode is not relaxed");
  if (all.failure != 0) return all.failure;
  Event* found = all.find_event(event);
  if (found == nullptr) return all.breach(kInvalidValue, "an event was asked that does not exist");
  all.advance();
  return found->happened == found->recorded ? kDone : kNotReady;
}

int cuEventDestroy_v2(void* event) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (all.checked("cuEventDestroy") == nullptr) return kInvalidContext;
  const Event* found = all.find_event(event);
  if (found == nullptr) return all.breach(kInvalidValue, "an event was destroyed that does not exist");
  all.forget_on_programs_streams(found);
  if (found->happened != found->recorded)
    all.breaches.emplace_back("an event was destroyed before it had happened");
  std::erase_if(all.events, [&](const auto& one) { return one.get() == event; });
  return kDone;
}

int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (all.checked("cuMemHostAlloc") == nullptr) return kInvalidContext;
  constexpr unsigned kPortable = 1, kMapped = 2;
  if ((flags & kPortable) == 0 || (flags & ~(kPortable | kMapped)) != 0)
    return all.breach(kInvalidValue, "pinned memory that other contexts do not know");
  if (all.making_forbidden) return all.breach(kOutOfMemory, "pinned memory was allocated after set-up");
  *memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (*memory == nullptr) return kOutOfMemory;
  all.host_memory.emplace(static_cast<std::byte*>(*memory), HostMemory{bytes, (flags & kMapped) != 0});
  return kDone;
}

int cuMemFreeHost(void* memory) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (all.checked("cuMemFreeHost") == nullptr) return kInvalidContext;
  const auto found = all.host_memory.find(static_cast<std::byte*>(memory));
  if (found == all.host_memory.end()) return all.breach(kInvalidValue, "memory was freed that is not pinned");
  if (all.is_touched(found->first, found->second.bytes))
    return all.breach(kInvalidValue,
                      "pinned memory was freed while a copy or kernel that touches it was queued");
  std::free(memory);
  all.host_memory.erase(found);
  return kDone;
}

int cuMemHostGetDevicePointer_v2(unsigned long long* address, void* memory, unsigned flags) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (all.checked("cuMemHostGetDevicePointer") == nullptr) return kInvalidContext;
  const HostMemory* found = all.find_host(static_cast<std::byte*>(memory), 1);
  if (flags != 0 || found == nullptr || !found->is_mapped)
    return all.breach(kInvalidValue, "memory that is not mapped has no address on the GPU");
  *address = reinterpret_cast<unsigned long long>(memory);
  return kDone;
}

int cuModuleLoadData(void** module, const void* image) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  const Context* context = all.checked("cuModuleLoadData");
  if (context == nullptr) return kInvalidContext;
  if (all.making_forbidden) return all.breach(kOutOfMemory, "a module was loaded after set-up");
  if (image == nullptr) return kInvalidImage;
  all.modules.push_back(std::make_unique<Module>());
  all.modules.back()->context = context;
  for (const PretendedKernel& one : all.kernels) all.modules.back()->kernels.emplace(one.name, one);
  *module = all.modules.back().get();
  return kDone;
}

int cuModuleUnload(void* module) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (all.checked("cuModuleUnload") == nullptr) return kInvalidContext;
  const Module* found = all.find_module(module);
  if (found == nullptr) return all.breach(kInvalidValue, "a module was unloaded that does not exist");
  for (const auto& [name, kernel] : found->kernels)
    if (all.is_queued(kernel)) return all.breach(kInvalidValue, "a module was unloaded under a kernel of it");
  std::erase_if(all.modules, [&](const auto& one) { return one.get() == module; });
  return kDone;
}

int cuModuleGetFunction(void** function, void* module, const char* name) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (all.checked("cuModuleGetFunction") == nullptr) return kInvalidContext;
  Module* found = all.find_module(module);
  if (found == nullptr) return all.breach(kInvalidValue, "a function was asked for of no module");
  const auto kernel = found->kernels.find(name);
  if (kernel == found->kernels.end()) return kNotFound;
  *function = &kernel->second;
  return kDone;
}

int cuLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                   unsigned, void* stream, void** parameters, void**) {
  const std::lock_guard guard(driver().lock);
  return driver().launch(function, blocks, threads, stream, parameters[0]);
}

int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, std::size_t bytes, void* stream) {
  const std::lock_guard guard(driver().lock);
  return driver().copy("cuMemcpyDtoHAsync",
                       {Command::Kind::kToHost, static_cast<std::byte*>(to),
                        reinterpret_cast<std::byte*>(from), bytes, nullptr, 0},
                       stream);
}

int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, std::size_t bytes, void* stream) {
  const std::lock_guard guard(driver().lock);
  return driver().copy("cuMemcpyHtoDAsync",
                       {Command::Kind::kToDevice, static_cast<std::byte*>(const_cast<void*>(from)),
                        reinterpret_cast<std::byte*>(to), bytes, nullptr, 0},
                       stream);
}

int cuFlushGPUDirectRDMAWrites(unsigned target, unsigned scope) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (all.checked("cuFlushGPUDirectRDMAWrites") == nullptr) return kInvalidContext;
  if (all.failure != 0) return all.failure;
  if (!all.options.flushes_writes || target != 0 || scope != 100) return kInvalidValue;
  all.flush_nic_writes();
  ++all.flushes;
  return kDone;
}

int cuPointerGetAttribute(void* value, int attribute, unsigned long long pointer) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  auto* at = reinterpret_cast<std::byte*>(pointer);
  const DeviceMemory* memory = all.find_device(at, 1);
  if (memory == nullptr && !all.is_pinned(at, 1)) return kInvalidValue;
  if (attribute == 2) {
    *static_cast<unsigned*>(value) = memory != nullptr ? 2 : 1;
  } else if (attribute == 9) {
    *static_cast<int*>(value) = memory != nullptr ? memory->gpu : 0;
  } else {
    return kInvalidValue;
  }
  return kDone;
}

int cuMemRetainAllocationHandle(unsigned long long* handle, void* address) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  std::byte* begin = nullptr;
  const DeviceMemory* memory = all.find_device(static_cast<std::byte*>(address), 1, &begin);
  if (memory == nullptr || memory->of != PretendedCuda::MemoryOf::kNoContext) return kInvalidValue;
  ++all.allocations_retained;
  *handle = reinterpret_cast<std::uintptr_t>(begin);
  return kDone;
}

int cuMemRelease(unsigned long long) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (all.allocations_retained == 0)
    return all.breach(kInvalidValue, "an allocation was released that was not retained");
  --all.allocations_retained;
  return kDone;
}

int cuGetErrorName(int error, const char** name) {
  switch (error) {
    case kInvalidValue:
      *name = "CUDA_ERROR_INVALID_VALUE";
      break;
    case kOutOfMemory:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      break;
    case kNotInitialized:
      *name = "CUDA_ERROR_NOT_INITIALIZED";
      break;
    case kInvalidContext:
      *name = "CUDA_ERROR_INVALID_CONTEXT";
      break;
    case kNotFound:
      *name = "CUDA_ERROR_NOT_FOUND";
      break;
    case 701:
      *name = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES";
      break;
    case 719:
      *name = "CUDA_ERROR_LAUNCH_FAILED";
      break;
    default:
      *name = nullptr;
      return kInvalidValue;
  }
  return kDone;
}

}  // extern "C"

}  // namespace tombolo::topology::test
