// Interfaces as the kernel reports them to this process, whose network namespace may differ from that of
// /sys.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "topology/system/interfaces.h"

namespace tombolo::topology {

/// A snapshot of the interfaces of this process's network namespace. Throws kSystem only when no socket can
/// be opened for the queries.
class KernelInterfaces {
 public:
  KernelInterfaces();
  ~KernelInterfaces();
  KernelInterfaces(const KernelInterfaces&) = delete;
  KernelInterfaces& operator=(const KernelInterfaces&) = delete;

  /// Names and indices, sorted by name.
  const std::vector<std::pair<std::string, int>>& list() const noexcept { return list_; }
  /// Whether `address`, as /sys writes it, is this interface's.
  bool has_hardware_address(const std::string& name, const std::string& address) const;
  /// The interface's addresses: IPv4 first, then global IPv6, then link-local IPv6 with its scope
  /// ("fe80::1%eth0").
  std::vector<std::string> addresses(const std::string& name) const;
  /// The name that the driver gives for itself; empty where it gives none.
  std::string driver(const std::string& name) const;
  /// Fills in whether it is enabled and up, and its MTU.
  void read_state(Interface& interface) const;
  /// Fills in what the kernel reports without /sys: state, MTU, rate, driver, and the role of a loopback or a
  /// point-to-point interface.
  void read_all(Interface& interface) const;

 private:
  int socket_ = -1;
  std::vector<std::pair<std::string, int>> list_;
  std::map<std::string, std::vector<std::string>> addresses_;
};

}  // namespace tombolo::topology
