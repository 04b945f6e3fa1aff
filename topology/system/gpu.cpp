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

void describe(Gpu& gpu, const NvmlGpu& known) {
  if (!known.name.empty()) gpu.name = known.name;
  gpu.memory_bytes = static_cast<double>(known.memory_bytes);
  gpu.compute_capability = known.compute_capability;
  gpu.nvlinks = known.nvlinks;
}

/// Each of NVML's GPUs is one of its own, whether NVML knows its address or not.
std::vector<Gpu> list_by_nvml() {
  std::vector<Gpu> gpus;
  for (const NvmlGpu& known : read_nvml()) {
    gpus.emplace_back().kind = DeviceKind::kGpu;
    describe(gpus.back(), known);
  }
  return gpus;
}

/// NVML may know a GPU that the tree lacks, because the tree is a recording or the GPU was unplugged, and one
/// whose address it does not tell: neither is described.
void name_by_nvml(std::vector<Gpu>& gpus) {
  for (const NvmlGpu& known : read_nvml()) {
    const auto found = std::find_if(gpus.begin(), gpus.end(),
                                    [&](const Gpu& gpu) { return address_of(gpu) == known.pci_address; });
    if (found != gpus.end()) describe(*found, known);
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
  if (!live) return all;
  if (all.empty()) return list_by_nvml();
  name_by_nvml(all);
  return all;
}

}  // namespace tombolo::topology
