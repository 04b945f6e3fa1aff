// Describes the cluster to emulate: hosts, their NICs, the switches to which these are connected, and the
// slow links between switches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "topology/nic.h"

namespace tombolo::emulation {

struct NicSpec {
  std::string name;  ///< interface name inside the host, at most 15 characters
  topology::NicKind kind = topology::NicKind::kTcp;
  std::string fabric;          ///< as topology::Nic::fabric; empty = the fabric that all TCP NICs share
  std::string segment;         ///< the switch it is connected to; NICs of one fabric are on joined segments
  double bits_per_second = 0;  ///< of each direction
  bool shaped = true;          ///< false: the rate is only declared, and the machine's speed is the limit
  /// An earlier NIC of the host, whose port, segment and rate this one shares; empty = it has its own.
  std::string behind = {};
};

struct HostSpec {
  std::string name;
  std::string cluster;
  int devices = 1;  ///< ranks that run on it
  std::vector<NicSpec> nics;
};

/// A full-duplex link that joins two segments.
struct LinkSpec {
  std::string first, second;
  double bits_per_second = 0;  ///< from the first to the second, and back where that has no rate of its own
  Duration round_trip{};       ///< added by the link, half of it each way
  double loss = 0;             ///< probability that a packet is lost, in each direction
  std::uint64_t queue_bytes = 0;    ///< most bytes that may wait, per direction; 0 = default_queue_bytes()
  double bits_per_second_back = 0;  ///< from the second to the first; 0 = as bits_per_second
  bool cuttable = false;  ///< carried by a relay even without round trip and loss, so that it can be cut

  /// The rate from the second segment to the first.
  double back() const noexcept { return bits_per_second_back > 0 ? bits_per_second_back : bits_per_second; }
  /// Whether a relay carries the link, because token buckets neither delay nor lose packets.
  bool relayed() const noexcept { return cuttable || round_trip > Duration::zero() || loss > 0; }
};

struct Spec {
  std::string name;
  std::vector<HostSpec> hosts;
  std::vector<LinkSpec> links;

  /// A built-in name with optional parameters, or the path of a JSON file.
  ///   holmes[:fast=4gbit,slow=100mbit,hosts=4]     two clusters, two NICs per host
  ///   two-clusters[:rate=1gbit,hosts=4,rtt=0ms,loss=0%]  one NIC per host, one link between the clusters
  ///   two-paths[:rates=1gbit/250mbit,rtt=0ms,loss=0%]    two hosts, a NIC of each on every path
  /// Throws kInvalidUsage naming what is wrong and where.
  static Spec from_text(std::string_view text);
  /// Parses the format of docs/emulation.md. Errors name file, line and field.
  static Spec parse(const JsonDocument& document);

  /// The fabrics in order of first appearance; the index is part of the addresses.
  std::vector<std::string> fabrics() const;
  /// Those that NICs are on, then those that only links name: switches between switches.
  std::vector<std::string> segments() const;
  int devices() const noexcept;
  /// The host of that name. Throws kInvalidUsage listing the hosts that there are.
  const HostSpec& host(std::string_view host_name) const;
  /// A fabric on which each of these hosts has a NIC, so that ranks can find each other. Throws
  /// kInvalidUsage.
  std::string common_fabric(const std::vector<std::string>& host_names) const;
  /// The numeric IPv4 address of a NIC: 10.77.f.h in namespaces, 127.77.f.h on loopback (f = fabric, h = host
  /// + 1).
  std::string address(std::size_t host_index, std::size_t nic_index, bool loopback) const;
};

}  // namespace tombolo::emulation
