#include "net_plugin/comms/handle.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace tombolo::net_plugin {
namespace {

constexpr std::array<std::byte, 4> kMagic{std::byte{'T'}, std::byte{'M'}, std::byte{'B'}, std::byte{'L'}};
constexpr std::uint8_t kVersion = 3;  // since further legs stage
constexpr std::size_t kVersionAt = 4, kLengthAt = 5, kFlagsAt = 6, kFileAt = 7, kSecretAt = 8;
constexpr std::byte kStages{1}, kMoreNics{2}, kGroups{4}, kTunes{8}, kTunerMode{0x30};
constexpr int kTunerModeShift = 4;
constexpr std::size_t kEndpointAt = kSecretAt + transport::Secret::kBytes;
constexpr std::size_t kMostEndpoint = abi::NCCL_NET_HANDLE_MAXSIZE - kEndpointAt;

TunerMark read_tuner(std::byte flags, std::byte hash) {
  const auto mode = std::to_integer<unsigned>((flags & kTunerMode) >> kTunerModeShift);
  if (mode > static_cast<unsigned>(TunerMode::kSpanning))
    fail(Cause::kRemote, "the peer's handle has a mode of the tuner, {}, that this build does not know",
         mode);
  return {static_cast<TunerMode>(mode), std::to_integer<std::uint8_t>(hash),
          (flags & kTunes) != std::byte{0}};
}

/// Orders the offers, because the handle has room for five IPv4 ones and encode_compact() drops the last. A
/// host with eight InfiniBand NICs and one Ethernet must not lose the Ethernet, which may be the only way
/// from other clusters. So the best offer comes first, then the best on the fabric that all hosts share, the
/// best of every other fabric, and the rest.
std::vector<transport::Offer> by_reach(const std::vector<transport::Offer>& offers) {
  auto rank = [&](std::size_t index) {
    const transport::Offer& offer = offers[index];
    bool first_of_fabric = std::none_of(offers.begin(), offers.begin() + static_cast<std::ptrdiff_t>(index),
                                        [&](const transport::Offer& earlier) {
                                          return earlier.fabric == offer.fabric && earlier.kind == offer.kind;
                                        });
    if (index == 0) return 0;
    if (first_of_fabric) return offer.fabric == 0 ? 1 : 2;
    return 3;
  };
  std::vector<std::size_t> order(offers.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, rank);
  std::vector<transport::Offer> ordered;
  for (std::size_t index : order) ordered.push_back(offers[index]);
  return ordered;
}

/// Whether the handle lacks a NIC that a peer on another host could use.
bool lacks_some(const std::vector<transport::Offer>& offers, std::size_t kept) {
  return std::any_of(offers.begin() + static_cast<std::ptrdiff_t>(std::min(kept, offers.size())),
                     offers.end(), [](const transport::Offer& offer) {
                       return !(offer.nic == "lo" || offer.address == "::1" || offer.address == "127.0.0.1");
                     });
}

}  // namespace

HandleBytes Handle::encode() const {
  transport::Endpoint short_form = endpoint;
  short_form.offers = by_reach(endpoint.offers);
  auto compact = short_form.encode_compact(kMostEndpoint);
  TOMBOLO_CHECK(compact.size() <= kMostEndpoint, "endpoint={} limit={}", compact.size(), kMostEndpoint);
  HandleBytes bytes{};
  std::ranges::copy(kMagic, bytes.begin());
  bytes[kVersionAt] = std::byte{kVersion};
  bytes[kLengthAt] = static_cast<std::byte>(compact.size());
  if (groups) bytes[kFlagsAt] |= kGroups;
  if (stages) bytes[kFlagsAt] |= kStages;
  if (tuner.active) bytes[kFlagsAt] |= kTunes;
  bytes[kFlagsAt] |= static_cast<std::byte>(tuner.mode) << kTunerModeShift;
  bytes[kFileAt] = std::byte{tuner.hash};
  const std::size_t kept = transport::Endpoint::decode(compact).offers.size();
  if (more_nics || lacks_some(short_form.offers, kept)) bytes[kFlagsAt] |= kMoreNics;
  std::ranges::copy(secret.bytes(), bytes.begin() + kSecretAt);
  std::ranges::copy(compact, bytes.begin() + kEndpointAt);
  return bytes;
}

Handle Handle::decode(std::span<const std::byte, abi::NCCL_NET_HANDLE_MAXSIZE> bytes) {
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
                transport::Endpoint::decode(bytes.subspan(kEndpointAt, length)),
                (bytes[kFlagsAt] & kGroups) != std::byte{0},
                (bytes[kFlagsAt] & kStages) != std::byte{0},
                (bytes[kFlagsAt] & kMoreNics) != std::byte{0},
                read_tuner(bytes[kFlagsAt], bytes[kFileAt])};
}

}  // namespace tombolo::net_plugin
