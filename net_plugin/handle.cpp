#include "net_plugin/handle.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace tombolo::net_plugin {
namespace {

constexpr std::array<std::byte, 4> kMagic{std::byte{'T'}, std::byte{'M'}, std::byte{'B'}, std::byte{'L'}};
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kVersionAt = 4, kLengthAt = 5, kSecretAt = 8;
constexpr std::size_t kEndpointAt = kSecretAt + transport::Secret::kBytes;
constexpr std::size_t kMostEndpoint = abi::kHandleBytes - kEndpointAt;

}  // namespace

HandleBytes Handle::encode() const {
  auto compact = endpoint.encode_compact(kMostEndpoint);
  TOMBOLO_CHECK(compact.size() <= kMostEndpoint, "endpoint={} limit={}", compact.size(), kMostEndpoint);
  HandleBytes bytes{};
  std::ranges::copy(kMagic, bytes.begin());
  bytes[kVersionAt] = std::byte{kVersion};
  bytes[kLengthAt] = static_cast<std::byte>(compact.size());
  std::ranges::copy(secret.bytes(), bytes.begin() + kSecretAt);
  std::ranges::copy(compact, bytes.begin() + kEndpointAt);
  return bytes;
}

Handle Handle::decode(std::span<const std::byte, abi::kHandleBytes> bytes) {
  if (!std::ranges::equal(kMagic, bytes.first<kMagic.size()>())) {
    fail(
        Cause::kRemote,
        "the peer's handle does not come from Tombolo: its rank uses another net plugin; set NCCL_NET_PLUGIN "
        "and NCCL_NET alike on all ranks");
  }
  auto version = std::to_integer<unsigned>(bytes[kVersionAt]);
  if (version != kVersion) {
    fail(Cause::kRemote,
         "the peer's handle has version {}, this build reads {}: install the same Tombolo on all hosts",
         version, kVersion);
  }
  auto length = std::to_integer<std::size_t>(bytes[kLengthAt]);
  if (length > kMostEndpoint) {
    fail(Cause::kRemote, "the peer's handle claims an endpoint of {} bytes, at most {} fit", length,
         kMostEndpoint);
  }
  return Handle{transport::Secret::from_bytes(bytes.subspan<kSecretAt, transport::Secret::kBytes>()),
                transport::Endpoint::decode(bytes.subspan(kEndpointAt, length))};
}

}  // namespace tombolo::net_plugin
