// What a peer needs to know to reach this process. It is published through the rendezvous, or inside NCCL's
// 128-byte handle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/nic.h"

namespace tombolo::transport {

/// What carries the bytes of a connection. The values are on the wire.
enum class Carrier : std::uint8_t { kTcp = 0, kShm = 1, kRdma = 2, kUcx = 3 };
/// The carriers' names by value, as in TOMBOLO_TRANSPORTS and in routes.
inline constexpr std::string_view kCarrierNames[] = {"tcp", "shm", "rdma", "ucx"};
/// Endpoint::carriers has a bit for each.
inline constexpr std::size_t kMostCarriers = 8;
/// Of an endpoint, at most: more are not encoded, and refused where they are decoded.
inline constexpr std::size_t kMostOffers = 64;

/// A carrier's name; "carrier 4" where this build has none for the value.
std::string_view carrier_name(Carrier carrier) noexcept;

/// One NIC that accepts connections.
struct Offer {
  std::string nic;  ///< interface name; empty after a compact encoding
  topology::NicKind kind = topology::NicKind::kTcp;
  std::uint32_t fabric =
      0;  ///< hash of Nic::fabric: NICs of equal fabric reach each other; 0 = the common TCP fabric
  std::string address;  ///< numeric IPv4 or IPv6
  std::uint16_t port = 0;
  std::uint64_t rate_bits_per_second = 0;
  bool emulated = false;
  bool rdma = false;     ///< queue pairs can be had on it
  bool standby = false;  ///< carries only what the endpoint's other offers cannot
  std::string rdma_problem =
      {};  ///< why queue pairs cannot be had on a NIC of an RDMA kind; known only to its own process
};

struct Endpoint {
  std::uint64_t process = 0;   ///< random; tells processes apart
  std::uint32_t listener = 0;  ///< tells a process' listeners apart, which share its ports
  std::string host;            ///< empty after a compact encoding
  std::string cluster;         ///< empty after a compact encoding
  std::vector<Offer> offers;   ///< best first
  /// The carriers that this process can use: bit N for the carrier of value N.
  std::uint8_t carriers = 1;
  bool can(Carrier carrier) const noexcept { return (carriers >> static_cast<int>(carrier) & 1) != 0; }
  /// Hashes of the two names, which a compact encoding keeps; 0 = not known. Use same_host(), same_cluster().
  std::uint32_t host_id = 0;
  std::uint32_t cluster_id = 0;

  /// Computes host_id and cluster_id from the names.
  void set_ids() noexcept;

  /// Encodes everything. The format is versioned.
  std::vector<std::byte> encode() const;
  /// Encodes without names, dropping the worst offers until it fits `limit` bytes. Throws kInternal if not
  /// even one fits.
  std::vector<std::byte> encode_compact(std::size_t limit) const;
  /// Reads either encoding. The bytes come from the wire: every length is checked; throws kRemote saying what
  /// is wrong.
  static Endpoint decode(std::span<const std::byte> bytes);
};

/// True where both name the same host. Unknown hosts are never the same.
bool same_host(const Endpoint& left, const Endpoint& right) noexcept;
/// True where both name the same cluster. Two endpoints without a cluster are in one cluster.
bool same_cluster(const Endpoint& left, const Endpoint& right) noexcept;

/// The hash by which endpoints compare fabrics: 0 for the empty name, else stable and not 0.
std::uint32_t fabric_hash(std::string_view fabric) noexcept;

}  // namespace tombolo::transport
