#include "topology/system/nvml_library.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/dynamic_library.h"
#include "topology/system/sys_tree.h"

namespace tombolo::topology {
namespace {

// NVML's binary interface, declared here because its header belongs to the CUDA toolkit, which machines
// without a compiler do not have. It is stable within a suffix (_v2, _v3).
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
// more than any GPU has; the first link that does not exist ends the loop
constexpr unsigned kMostNvlinks = 36;
constexpr unsigned kLinkActive = 1;   // nvmlEnableState_t
constexpr unsigned kRemoteIsGpu = 0;  // nvmlIntNvLinkDeviceType_t

struct Nvml {
  DynamicLibrary library;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, Handle*) = nullptr;
  int (*name)(Handle, char*, unsigned) = nullptr;
  int (*memory)(Handle, Memory*) = nullptr;
  int (*pci)(Handle, PciInfo*) = nullptr;
  // These are optional, because older libraries lack some.
  int (*capability)(Handle, int*, int*) = nullptr;
  int (*link_state)(Handle, unsigned, unsigned*) = nullptr;
  int (*link_peer)(Handle, unsigned, PciInfo*) = nullptr;
  int (*link_peer_type)(Handle, unsigned, unsigned*) = nullptr;

  bool find_all() {
    library.find("nvmlDeviceGetCudaComputeCapability", capability);
    library.find("nvmlDeviceGetNvLinkState", link_state);
    library.find("nvmlDeviceGetNvLinkRemotePciInfo_v2", link_peer);
    library.find("nvmlDeviceGetNvLinkRemoteDeviceType", link_peer_type);
    return library.find("nvmlInit_v2", init) && library.find("nvmlShutdown", shutdown) &&
           library.find("nvmlDeviceGetCount_v2", count) &&
           library.find("nvmlDeviceGetHandleByIndex_v2", handle) && library.find("nvmlDeviceGetName", name) &&
           library.find("nvmlDeviceGetMemoryInfo", memory) && library.find("nvmlDeviceGetPciInfo_v3", pci);
  }
};

/// The text in a buffer that may lack the terminating zero.
template <std::size_t N>
std::string text_of(const std::array<char, N>& buffer) {
  return std::string(buffer.begin(), std::find(buffer.begin(), buffer.end(), '\0'));
}

std::vector<NvLinks> links_of(const Nvml& nvml, Handle handle) {
  std::vector<NvLinks> all;
  if (nvml.link_state == nullptr || nvml.link_peer == nullptr) return all;
  for (unsigned link = 0; link < kMostNvlinks; ++link) {
    unsigned state = 0;
    if (nvml.link_state(handle, link, &state) != kSuccess) break;
    PciInfo peer{};
    if (state != kLinkActive || nvml.link_peer(handle, link, &peer) != kSuccess) continue;
    unsigned type = kRemoteIsGpu;
    if (nvml.link_peer_type != nullptr && nvml.link_peer_type(handle, link, &type) != kSuccess)
      type = kRemoteIsGpu;
    // A guest does not see the switches, so a remote end without an address is a switch.
    std::string address = pci_address_from_nvml(text_of(peer.bus_id));
    if (!is_pci_address(address)) address.clear();
    const bool to_switch = type != kRemoteIsGpu || address.empty();
    auto known = std::find_if(all.begin(), all.end(), [&](const NvLinks& group) {
      return group.peer == address && group.to_switch == to_switch;
    });
    if (known == all.end()) known = all.insert(all.end(), NvLinks{address, to_switch, 0});
    ++known->count;
  }
  return all;
}

}  // namespace

std::string pci_address_from_nvml(const std::string& bus_id) {
  std::string address = bus_id;
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  // NVML writes the domain with eight digits, /sys with four.
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
    int major = 0, minor = 0;
    if (nvml.capability != nullptr && nvml.capability(handle, &major, &minor) == kSuccess)
      gpu.compute_capability = 10 * major + minor;
    gpu.nvlinks = links_of(nvml, handle);
    all.push_back(std::move(gpu));
  }
  nvml.shutdown();
  return all;
}

}  // namespace tombolo::topology
