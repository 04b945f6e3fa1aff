#include "topology/nvml_library.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/dynamic_library.h"

namespace tombolo::topology {
namespace {

// NVML's binary interface, which is stable within a suffix (_v2, _v3); its header belongs to the CUDA
// toolkit, which a machine that only runs does not have.
using Handle = void*;
struct Memory {
  unsigned long long total, free, used;
};
struct PciInfo {
  std::array<char, 16> short_bus_id;
  unsigned domain, bus, device, device_id, subsystem_id;
  std::array<char, 32> bus_id;
};
constexpr int kSuccess = 0;

struct Nvml {
  DynamicLibrary library;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, Handle*) = nullptr;
  int (*name)(Handle, char*, unsigned) = nullptr;
  int (*memory)(Handle, Memory*) = nullptr;
  int (*pci)(Handle, PciInfo*) = nullptr;

  bool find_all() {
    return library.find("nvmlInit_v2", init) && library.find("nvmlShutdown", shutdown) &&
           library.find("nvmlDeviceGetCount_v2", count) &&
           library.find("nvmlDeviceGetHandleByIndex_v2", handle) && library.find("nvmlDeviceGetName", name) &&
           library.find("nvmlDeviceGetMemoryInfo", memory) && library.find("nvmlDeviceGetPciInfo_v3", pci);
  }
};

/// Text in a buffer that may lack its end.
template <std::size_t N>
std::string text_of(const std::array<char, N>& buffer) {
  return std::string(buffer.begin(), std::find(buffer.begin(), buffer.end(), '\0'));
}

}  // namespace

std::string pci_address_from_nvml(const std::string& bus_id) {
  std::string address = bus_id;
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  // The domain has eight digits there and four here.
  auto colon = address.find(':');
  if (colon == 8 && address.starts_with("0000")) address.erase(0, 4);
  return address;
}

std::vector<NvmlGpu> read_nvml() {
  std::vector<NvmlGpu> all;
  auto library = DynamicLibrary::open({"libnvidia-ml.so.1"});
  if (!library) return all;
  Nvml nvml{*std::move(library)};
  if (!nvml.find_all() || nvml.init() != kSuccess) return all;
  unsigned count = 0;
  if (nvml.count(&count) != kSuccess) count = 0;
  for (unsigned i = 0; i < count; ++i) {
    Handle handle = nullptr;
    if (nvml.handle(i, &handle) != kSuccess) continue;
    NvmlGpu gpu;
    std::array<char, 96> name{};
    if (nvml.name(handle, name.data(), static_cast<unsigned>(name.size())) == kSuccess)
      gpu.name = text_of(name);
    Memory memory{};
    if (nvml.memory(handle, &memory) == kSuccess) gpu.memory_bytes = memory.total;
    PciInfo pci{};
    if (nvml.pci(handle, &pci) == kSuccess) gpu.pci_address = pci_address_from_nvml(text_of(pci.bus_id));
    all.push_back(std::move(gpu));
  }
  nvml.shutdown();
  return all;
}

}  // namespace tombolo::topology
