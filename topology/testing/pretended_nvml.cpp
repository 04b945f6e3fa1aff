#include "topology/testing/pretended_nvml.h"

#include <atomic>

namespace tombolo::topology::test {

PretendedNvml& pretended_nvml() {
  static PretendedNvml nvml;
  return nvml;
}

namespace {

constexpr int kDone = 0, kNotFound = 6;

struct Memory {
  unsigned long long total, free, used;
};
struct PciInfo {
  char short_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

/// Fills the whole buffer where the text is long, as the library may: without a terminating zero.
int tell(const std::string& text, char* buffer, std::size_t size) {
  if (text.empty()) return kNotFound;
  if (const std::size_t copied = text.copy(buffer, size); copied < size) buffer[copied] = '\0';
  return kDone;
}

const PretendedNvmlGpu& gpu_of(void* handle) {
  return *static_cast<const PretendedNvmlGpu*>(handle);
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  if (!pretended_nvml().starts) return kNotFound;
  std::atomic_ref(pretended_nvml().running).fetch_add(1);  // ranks as threads begin together
  return kDone;
}

int nvmlShutdown() {
  std::atomic_ref(pretended_nvml().running).fetch_sub(1);
  return kDone;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(pretended_nvml().gpus.size());
  return pretended_nvml().counts ? kDone : kNotFound;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  PretendedNvmlGpu& gpu = pretended_nvml().gpus.at(index);
  *handle = &gpu;
  return gpu.answers ? kDone : kNotFound;
}

int nvmlDeviceGetName(void* handle, char* name, unsigned size) {
  return tell(gpu_of(handle).name, name, size);
}

int nvmlDeviceGetMemoryInfo(void* handle, Memory* memory) {
  memory->total = gpu_of(handle).memory;
  return memory->total > 0 ? kDone : kNotFound;
}

int nvmlDeviceGetPciInfo_v3(void* handle, PciInfo* info) {
  return tell(gpu_of(handle).bus_id, info->bus_id, sizeof info->bus_id);
}

int nvmlDeviceGetCudaComputeCapability(void* handle, int* major, int* minor) {
  *major = gpu_of(handle).major;
  *minor = gpu_of(handle).minor;
  return *major > 0 ? kDone : kNotFound;
}

int nvmlDeviceGetNvLinkState(void* handle, unsigned link, unsigned* state) {
  const auto& links = gpu_of(handle).links;
  if (link >= links.size()) return kNotFound;
  *state = links[link].active ? 1 : 0;
  return kDone;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* handle, unsigned link, PciInfo* info) {
  return tell(gpu_of(handle).links.at(link).peer, info->bus_id, sizeof info->bus_id);
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void* handle, unsigned link, unsigned* type) {
  *type = gpu_of(handle).links.at(link).type;
  return *type != 255 ? kDone : kNotFound;
}

}  // extern "C"

}  // namespace tombolo::topology::test
