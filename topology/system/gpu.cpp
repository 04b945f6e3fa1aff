#include "topology/system/gpu.h"

#include <algorithm>

#include "base/format.h"
#include "topology/system/nvml_library.h"

namespace tombolo::topology {
namespace {

constexpr std::int64_t kNvidia = 0x10de;
constexpr std::int64_t kDisplayController = 0x0300;  // class and subclass: VGA-compatible
constexpr std::int64_t kController3d = 0x0302;       // data-centre GPUs without a display

std::string address_of(const Device& gpu) {
  return gpu.pci_path.substr(gpu.pci_path.rfind('/') + 1);
}

void name_by_nvml(std::vector<Gpu>& gpus, bool bus_hidden) {
  for (const NvmlGpu& known : read_nvml()) {
    auto found = std::find_if(gpus.begin(), gpus.end(),
                              [&](const Gpu& gpu) { return address_of(gpu) == known.pci_address; });
    if (found == gpus.end()) {
      if (!bus_hidden)
        // NVML knows a GPU that the tree lacks, because the tree is a recording or the GPU was unplugged
        continue;
      Gpu gpu;
      gpu.kind = DeviceKind::kGpu;
      found = gpus.insert(gpus.end(), std::move(gpu));
    }
    if (!known.name.empty()) found->name = known.name;
    found->memory_bytes = static_cast<double>(known.memory_bytes);
    found->compute_capability = known.compute_capability;
    found->nvlinks = known.nvlinks;
  }
}

}  // namespace

std::vector<Gpu> read_gpus(const SysTree& tree, bool live) {
  std::vector<Gpu> all;
  for (const auto& address : tree.names("/sys/bus/pci/devices")) {
    const std::string folder = "/sys/bus/pci/devices/" + address;
    std::int64_t type = tree.integer(folder + "/class").value_or(0) >> 8;
    if (type != kDisplayController && type != kController3d) continue;
    if (tree.integer(folder + "/vendor") != kNvidia) continue;
    auto pci = read_pci_facts(tree, folder);
    Gpu gpu;
    gpu.kind = DeviceKind::kGpu;
    gpu.name = fmt::format("NVIDIA GPU {}", tree.text(folder + "/device").value_or("of unknown type"));
    gpu.numa_node = pci.numa_node;
    gpu.pci_path = pci.path;
    all.push_back(std::move(gpu));
  }
  if (live) name_by_nvml(all, all.empty());
  return all;
}

}  // namespace tombolo::topology
