// For tests: hand-made trees of files that look like /sys on machines that a test does not have.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>

#include "base/format.h"

namespace tombolo::topology {

/// A temporary folder that is removed with the object.
class RecordedTree {
 public:
  RecordedTree() {
    std::string name = (std::filesystem::temp_directory_path() / "tombolo-tree-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
    root_ = name;
    file("/etc/hostname", "recorded");
    file("/proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB");
    file("/sys/devices/system/cpu/online", "0-3,8");
    folder("/sys/devices/system/node/node0");
    folder("/sys/devices/system/node/node1");
    folder("/sys/class/net");
  }
  ~RecordedTree() { std::filesystem::remove_all(root_); }
  RecordedTree(const RecordedTree&) = delete;
  RecordedTree& operator=(const RecordedTree&) = delete;

  const std::filesystem::path& root() const { return root_; }

  void folder(const std::string& path) { std::filesystem::create_directories(at(path)); }
  void file(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(at(path).parent_path());
    std::ofstream(at(path)) << text << "\n";
  }
  /// Makes a relative link, as those in /sys are.
  void link(const std::string& path, const std::string& target) {
    std::filesystem::create_directories(at(path).parent_path());
    std::filesystem::create_directories(at(target));
    std::filesystem::create_symlink(at(target).lexically_relative(at(path).parent_path()), at(path));
  }

  /// Makes a PCI function; returns its folder.
  std::string pci(const std::string& address, const std::string& driver, int numa_node = 0) {
    std::string folder_ = "/sys/devices/pci0000:17/" + address;
    file(folder_ + "/numa_node", std::to_string(numa_node));
    link(folder_ + "/driver", "/sys/bus/pci/drivers/" + driver);
    link("/sys/bus/pci/devices/" + address, folder_);
    return folder_;
  }

  /// Makes an interface as the kernel does: a folder below its device (or below virtual/), linked from
  /// class/net. `files` overwrite the defaults, which are those of a working Ethernet port.
  std::string interface(const std::string& name, const std::string& device,
                        std::map<std::string, std::string> files = {}) {
    std::string base = (device.empty() ? "/sys/devices/virtual" : device) + "/net/" + name;
    std::string index = std::to_string(++interfaces_);
    std::map<std::string, std::string> all{{"type", "1"},       {"flags", "0x1003"},
                                           {"operstate", "up"}, {"mtu", "1500"},
                                           {"ifindex", index},  {"iflink", index},
                                           {"speed", "-1"},     {"address", "02:fc:00:00:00:01"},
                                           {"dev_port", "0"},   {"uevent", "INTERFACE=" + name}};
    for (auto& [key, value] : files) all[key] = value;
    for (const auto& [key, value] : all) file(base + "/" + key, value);
    link("/sys/class/net/" + name, base);
    if (!device.empty()) link(base + "/device", device);
    return base;
  }

  /// Makes an RDMA port; `files` overwrite the defaults, which are those of an active 200 Gbit/s InfiniBand
  /// port.
  std::string rdma(const std::string& name, const std::string& device, int port,
                   std::map<std::string, std::string> files = {}) {
    std::string base = device + "/infiniband/" + name;
    if (!std::filesystem::exists(at("/sys/class/infiniband/" + name))) {
      link("/sys/class/infiniband/" + name, base);
      link(base + "/device", device);
      file(base + "/node_type", files.contains("node_type") ? files["node_type"] : "1: CA");
    }
    files.erase("node_type");
    std::map<std::string, std::string> all{{"link_layer", "InfiniBand"},
                                           {"state", "4: ACTIVE"},
                                           {"phys_state", "5: LinkUp"},
                                           {"rate", "200 Gb/sec (4X HDR)"},
                                           {"gids/0", "fe80:0000:0000:0000:b859:9f03:00c3:ab60"},
                                           {"gids/1", "0000:0000:0000:0000:0000:0000:0000:0000"},
                                           {"gid_attrs/types/0", "IB/RoCE v1"}};
    for (auto& [key, value] : files) all[key] = value;
    for (const auto& [key, value] : all) file(fmt::format("{}/ports/{}/{}", base, port, key), value);
    return base;
  }

 private:
  std::filesystem::path at(const std::string& path) const { return root_ / path.substr(1); }
  std::filesystem::path root_;
  int interfaces_ = 0;
};

}  // namespace tombolo::topology
