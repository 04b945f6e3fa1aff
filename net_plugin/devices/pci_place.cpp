#include "net_plugin/devices/pci_place.h"

#include <algorithm>
#include <charconv>

namespace tombolo::net_plugin {
namespace {

constexpr std::string_view kNetworkClass = "0x02";  // PCI's base class of network controllers

/// The card's first function where `path` is another one of it and both are network controllers. Functions of
/// one slot may be quite different devices, as in a chipset.
std::string first_function(const topology::SysTree& tree, const std::string& path) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string::npos || path.substr(dot) == ".0") return path;
  const std::string first = path.substr(0, dot) + ".0";
  const auto is_network = [&](const std::string& function) {
    return tree.text(function + "/class").value_or("").starts_with(kNetworkClass);
  };
  return is_network(path) && is_network(first) ? first : path;
}

}  // namespace

std::string pci_place(const topology::SysTree& tree, const topology::Nic& nic) {
  if (nic.pci_path.empty() || !tree.exists(nic.pci_path)) return {};
  const std::string link = nic.pci_path + "/physfn";
  const std::string physical = tree.link_name(link).empty() ? std::string() : tree.real_path(link);
  return first_function(tree, physical.empty() ? nic.pci_path : physical);
}

std::uint64_t node_guid(const topology::SysTree& tree, const std::string& rdma_device) {
  if (rdma_device.empty()) return 0;
  // "b859:9f03:00c3:ab60"
  std::string digits = tree.text("/sys/class/infiniband/" + rdma_device + "/node_guid").value_or("");
  std::erase(digits, ':');
  std::uint64_t guid = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), guid, 16);
  return status == std::errc{} && end == digits.data() + digits.size() ? guid : 0;
}

}  // namespace tombolo::net_plugin
