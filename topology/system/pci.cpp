#include "topology/system/pci.h"

#include <filesystem>
#include <set>

namespace tombolo::topology {

std::vector<std::string> pci_steps(const std::string& pci_path) {
  std::vector<std::string> steps;
  for (const auto& part : std::filesystem::path(pci_path)) {
    if (is_pci_address(part.string())) steps.push_back(part.string());
  }
  return steps;
}

std::string host_bridge(const std::string& pci_path) {
  std::string last;
  for (const auto& part : std::filesystem::path(pci_path)) {
    if (is_pci_address(part.string())) break;
    last = part.string();
  }
  return last.starts_with("pci") ? last : std::string();
}

std::vector<PciFunction> read_pci_functions(const SysTree& tree, const std::vector<std::string>& pci_paths) {
  std::set<std::string> paths;
  for (const std::string& given : pci_paths) {
    for (std::filesystem::path at = given; is_pci_address(at.filename().string()); at = at.parent_path())
      paths.insert(at.string());
  }
  std::vector<PciFunction> all;
  for (const std::string& path : paths) {
    PciFunction function;
    function.path = path;
    function.address = path.substr(path.rfind('/') + 1);
    auto text = [&](const char* name) { return tree.text(path + "/" + name).value_or(""); };
    function.device_class = text("class");
    function.vendor = text("vendor");
    function.device = text("device");
    function.subsystem_vendor = text("subsystem_vendor");
    function.subsystem_device = text("subsystem_device");
    function.max_link_speed = text("max_link_speed");
    constexpr std::int64_t kMostLanes = 32;
    if (auto width = tree.integer(path + "/max_link_width"); width && *width > 0 && *width <= kMostLanes)
      function.max_link_width = static_cast<int>(*width);
    if (auto node = tree.integer(path + "/numa_node"); node && *node >= 0 && *node < 4096)
      function.numa_node = static_cast<int>(*node);
    all.push_back(std::move(function));
  }
  return all;
}

}  // namespace tombolo::topology
