// Reads small files below a root: this machine's "/", or a recorded tree, which may contain anything. The
// folder system/ owns what this machine's kernel and libraries report (/sys, /proc, netlink, libibverbs,
// NVML, hwloc), without judging it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tombolo::topology {

class TreeFile;

/// All paths are given as on a real machine ("/sys/class/net"). Nothing here throws: what cannot be read is
/// absent.
class SysTree {
 public:
  /// A folder, or a recorded tree in one file (TreeFile, whose errors are thrown here).
  explicit SysTree(const std::filesystem::path& root);

  /// Whether there is a file or a folder.
  bool exists(std::string_view path) const;
  /// Names in a folder, sorted; empty where there is none.
  std::vector<std::string> names(std::string_view path) const;
  /// A file's text without surrounding blanks, control characters as '?'; at most 4096 bytes (one page, which
  /// is what /sys gives). Only regular files are read, so a pipe in an odd tree cannot block.
  std::optional<std::string> text(std::string_view path) const;
  /// The lines of a longer file (/proc/net/route), each with control characters as '?'; the first MiB.
  std::vector<std::string> lines(std::string_view path) const;
  /// The text as an integer, decimal or 0x hexadecimal.
  std::optional<std::int64_t> integer(std::string_view path) const;
  /// The value of KEY=value in a uevent file; empty where it is absent.
  std::string uevent(std::string_view path, std::string_view key) const;
  /// The last component of the path to which a symbolic link points; empty where it is no link.
  std::string link_name(std::string_view path) const;
  /// The path with all links followed, as on a real machine ("/sys/devices/..."); empty where it leads out of
  /// the root or nowhere.
  std::string real_path(std::string_view path) const;

 private:
  std::filesystem::path below(std::string_view path) const;
  std::optional<std::string> read(std::string_view path, std::size_t most) const;
  std::filesystem::path root_;
  std::shared_ptr<const TreeFile> file_;  ///< null where the root is a folder
};

/// Whether it is an address such as "0000:18:00.0"; a domain may have more than four digits.
bool is_pci_address(std::string_view name);

/// Facts about a PCI device that every kind of device shares. `device` is a folder of /sys/class/... that
/// links to a device ("/sys/class/net/eth0/device").
struct PciFacts {
  std::string
      path;  ///< of the PCI function itself, also where the device hangs below it (virtio); else empty
  std::string driver;
  std::optional<int> numa_node;
  bool virtual_function = false;
  std::string physical_function;  ///< address of the parent function of a virtual one; empty in a guest
};
PciFacts read_pci_facts(const SysTree& tree, const std::string& device);

}  // namespace tombolo::topology
