// What is to be emulated: hosts, their NICs, the switches they hang on, and the slow links between switches.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "topology/nic.h"

namespace tombolo::emulation {

struct NicSpec {
  std::string name;  ///< interface name inside the host, at most 15 characters
  topology::NicKind kind = topology::NicKind::kTcp;
  std::string fabric;          ///< as topology::Nic::fabric; empty = the fabric that all TCP NICs share
  std::string segment;         ///< the switch it hangs on; NICs of one fabric sit on joined segments
  double bits_per_second = 0;  ///< of each direction
  bool shaped = true;          ///< false: the rate is only declared, and the machine's speed is the limit
};

struct HostSpec {
  std::string name;
  std::string cluster;
  int devices = 1;  ///< ranks it takes
  std::vector<NicSpec> nics;
};

/// A full-duplex link that joins two segments.
struct LinkSpec {
  std::string first, second;
  double bits_per_second = 0;
};

struct Spec {
  std::string name;
  std::vector<HostSpec> hosts;
  std::vector<LinkSpec> links;

  /// A built-in name with optional parameters, or the path of a JSON file.
  ///   holmes[:fast=4gbit,slow=100mbit,hosts=4]     two clusters, two NICs per host
  ///   two-clusters[:rate=1gbit,hosts=4]            one NIC per host, one shaped link between the clusters
  /// Throws kInvalidUsage naming what is wrong and where.
  static Spec from_text(std::string_view text);
  /// Format: docs/emulation.md. Errors name file, line and field.
  static Spec parse(const JsonDocument& document);

  /// Fabrics in order of first appearance; the index is part of the addresses.
  std::vector<std::string> fabrics() const;
  std::vector<std::string> segments() const;
  int devices() const noexcept;
  /// Throws kInvalidUsage listing the hosts there are.
  const HostSpec& host(std::string_view host_name) const;
  /// A fabric on which each of these hosts has a NIC: ranks find each other there. Throws kInvalidUsage.
  std::string common_fabric(const std::vector<std::string>& host_names) const;
  /// Numeric IPv4 address of a NIC: 10.77.f.h in namespaces, 127.77.f.h on loopback (f = fabric, h = host +
  /// 1).
  std::string address(std::size_t host_index, std::size_t nic_index, bool loopback) const;
};

/// "100mbit", "1gbit", "2.5G", "100000000": bits per second, powers of 1000. Throws kInvalidUsage naming
/// `what`.
double parse_bit_rate(std::string_view text, std::string_view what);

}  // namespace tombolo::emulation
