#include "transport/endpoint.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/hash.h"
#include "transport/bytes.h"

namespace tombolo::transport {
namespace {

// Layout, little-endian:
//   u16 magic, u8 version, u8 form, u8 carriers, u64 process, u32 listener, u32 host id, u32 cluster id,
//   full form only: text host, text cluster
//   u8 number of offers, then per offer:
//     u8 kind (bits 0-3), IPv6 (bit 4), emulated (bit 5), queue pairs (bit 6), standby (bit 7); u32 fabric;
//     u16 port; 4 or 16 bytes of address; full: u64 rate in bit/s, text NIC name; compact: u32 rate in Mbit/s
constexpr std::uint16_t kMagic = 0x4254;  // "TB"
constexpr std::uint8_t kVersion = 4;
constexpr std::uint8_t kFull = 0, kCompact = 1;
constexpr std::uint8_t kKindMask = 0x0f, kIpv6Bit = 0x10, kEmulatedBit = 0x20, kRdmaBit = 0x40,
                       kStandbyBit = 0x80;
constexpr std::uint64_t kMegabit = 1'000'000;

/// The address in network order: 4 or 16 bytes.
std::vector<std::byte> pack_address(const std::string& address) {
  std::vector<std::byte> packed(4);
  if (inet_pton(AF_INET, address.c_str(), packed.data()) == 1) return packed;
  packed.resize(16);
  if (inet_pton(AF_INET6, address.c_str(), packed.data()) == 1) return packed;
  fail(Cause::kInvalidUsage, "'{}' is not a numeric IPv4 or IPv6 address", address);
}

std::string unpack_address(std::span<const std::byte> packed) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(packed.size() == 4 ? AF_INET : AF_INET6, packed.data(), text.data(), text.size());
  return text.data();
}

void write_offer(ByteWriter& writer, const Offer& offer, bool compact) {
  auto address = pack_address(offer.address);
  auto flags = static_cast<std::uint8_t>(offer.kind);
  if (address.size() == 16) flags |= kIpv6Bit;
  if (offer.emulated) flags |= kEmulatedBit;
  if (offer.rdma) flags |= kRdmaBit;
  if (offer.standby) flags |= kStandbyBit;
  writer.number(flags);
  writer.number(offer.fabric);
  writer.number(offer.port);
  writer.raw(address);
  if (compact) {
    // Rounded up, so that a slow NIC does not become one of unknown rate.
    std::uint64_t megabits = (offer.rate_bits_per_second + kMegabit - 1) / kMegabit;
    writer.number(static_cast<std::uint32_t>(std::min<std::uint64_t>(megabits, UINT32_MAX)));
  } else {
    writer.number(offer.rate_bits_per_second);
    writer.text(offer.nic);
  }
}

Offer read_offer(ByteReader& reader, bool compact) {
  Offer offer;
  auto flags = reader.number<std::uint8_t>();
  auto kind = flags & kKindMask;
  if (kind > static_cast<int>(topology::NicKind::kTcp) ||
      (flags & ~(kKindMask | kIpv6Bit | kEmulatedBit | kRdmaBit | kStandbyBit)) != 0) {
    fail(Cause::kRemote, "endpoint holds an offer of unknown kind or flags 0x{:02x}", flags);
  }
  offer.kind = static_cast<topology::NicKind>(kind);
  offer.emulated = (flags & kEmulatedBit) != 0;
  offer.rdma = (flags & kRdmaBit) != 0;
  offer.standby = (flags & kStandbyBit) != 0;
  offer.fabric = reader.number<std::uint32_t>();
  offer.port = reader.number<std::uint16_t>();
  offer.address = unpack_address(reader.raw((flags & kIpv6Bit) != 0 ? 16 : 4));
  if (compact) {
    offer.rate_bits_per_second = reader.number<std::uint32_t>() * kMegabit;
  } else {
    offer.rate_bits_per_second = reader.number<std::uint64_t>();
    offer.nic = reader.text();
  }
  return offer;
}

std::vector<std::byte> encode_as(const Endpoint& endpoint, bool compact, std::size_t offers) {
  ByteWriter writer;
  writer.number(kMagic);
  writer.number(kVersion);
  writer.number(compact ? kCompact : kFull);
  writer.number(endpoint.carriers);
  writer.number(endpoint.process);
  writer.number(endpoint.listener);
  writer.number(endpoint.host_id != 0 ? endpoint.host_id : fabric_hash(endpoint.host));
  writer.number(endpoint.cluster_id != 0 ? endpoint.cluster_id : fabric_hash(endpoint.cluster));
  if (!compact) {
    writer.text(endpoint.host);
    writer.text(endpoint.cluster);
  }
  writer.number(static_cast<std::uint8_t>(offers));
  for (std::size_t i = 0; i < offers; ++i) write_offer(writer, endpoint.offers[i], compact);
  return writer.take();
}

}  // namespace

std::string_view carrier_name(Carrier carrier) noexcept {
  static constexpr std::string_view kUnnamed[kMostCarriers] = {
      "carrier 0", "carrier 1", "carrier 2", "carrier 3", "carrier 4", "carrier 5", "carrier 6", "carrier 7"};
  const auto value = static_cast<std::size_t>(carrier);
  if (value < std::size(kCarrierNames)) return kCarrierNames[value];
  return value < kMostCarriers ? kUnnamed[value] : "unknown carrier";
}

void Endpoint::set_ids() noexcept {
  host_id = fabric_hash(host);
  cluster_id = fabric_hash(cluster);
}

std::vector<std::byte> Endpoint::encode() const {
  return encode_as(*this, false, std::min(offers.size(), kMostOffers));
}

std::vector<std::byte> Endpoint::encode_compact(std::size_t limit) const {
  std::size_t count = std::min(offers.size(), kMostOffers);
  for (;; --count) {
    auto bytes = encode_as(*this, true, count);
    if (bytes.size() <= limit && (count > 0 || offers.empty())) return bytes;
    if (count <= 1) {
      fail(Cause::kInternal, "an endpoint with one of its {} offers takes {} bytes, but only {} are there",
           offers.size(), bytes.size(), limit);
    }
  }
}

Endpoint Endpoint::decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "endpoint");
  if (auto magic = reader.number<std::uint16_t>(); magic != kMagic) {
    fail(Cause::kRemote, "endpoint starts with 0x{:04x}: not one of Tombolo's", magic);
  }
  if (auto version = reader.number<std::uint8_t>(); version != kVersion) {
    fail(Cause::kRemote, "endpoint has version {}, this build reads {}: use one version on every host",
         version, kVersion);
  }
  auto form = reader.number<std::uint8_t>();
  if (form != kFull && form != kCompact) fail(Cause::kRemote, "endpoint has unknown form {}", form);
  bool compact = form == kCompact;
  Endpoint endpoint;
  endpoint.carriers = reader.number<std::uint8_t>();
  endpoint.process = reader.number<std::uint64_t>();
  endpoint.listener = reader.number<std::uint32_t>();
  endpoint.host_id = reader.number<std::uint32_t>();
  endpoint.cluster_id = reader.number<std::uint32_t>();
  if (!compact) {
    endpoint.host = reader.text();
    endpoint.cluster = reader.text();
  }
  auto count = reader.number<std::uint8_t>();
  if (count > kMostOffers) {
    fail(Cause::kRemote, "endpoint claims {} offers, at most {} are allowed", count, kMostOffers);
  }
  for (int i = 0; i < count; ++i) endpoint.offers.push_back(read_offer(reader, compact));
  // A compact encoding may sit in a larger, zero-padded field such as NCCL's handle; a full one may not.
  if (!compact && reader.remaining() != 0) {
    fail(Cause::kRemote, "endpoint is followed by {} unexpected bytes", reader.remaining());
  }
  return endpoint;
}

namespace {

std::uint32_t id_of(std::uint32_t id, const std::string& name) noexcept {
  return id != 0 ? id : fabric_hash(name);
}

}  // namespace

bool same_host(const Endpoint& left, const Endpoint& right) noexcept {
  auto id = id_of(left.host_id, left.host);
  return id != 0 && id == id_of(right.host_id, right.host);
}

bool same_cluster(const Endpoint& left, const Endpoint& right) noexcept {
  return id_of(left.cluster_id, left.cluster) == id_of(right.cluster_id, right.cluster);
}

std::uint32_t fabric_hash(std::string_view fabric) noexcept {
  if (fabric.empty()) return 0;
  const auto hash = fnv1a<std::uint32_t>(fabric);
  return hash != 0 ? hash : 1;
}

}  // namespace tombolo::transport
