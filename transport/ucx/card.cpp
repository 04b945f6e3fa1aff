#include "transport/ucx/card.h"

#include "base/error.h"
#include "transport/bytes.h"

namespace tombolo::transport::ucx {
namespace {

constexpr std::uint16_t kUcxCardVersion = 2;
constexpr std::size_t kNicAddressWidth = 46, kRefusalWidth = 400;

}  // namespace

Card Card::refusal(std::string_view reason) {
  Card card;
  card.kind = Kind::kRefusal;
  card.reason = reason.substr(0, kRefusalWidth);
  return card;
}

std::vector<std::byte> Card::encode() const {
  TOMBOLO_CHECK(address.size() <= kLongestAddress && wanted.size() <= kMostLanes, "address={} wanted={}",
                address.size(), wanted.size());
  ByteWriter writer;
  writer.number(kUcxCardVersion);
  writer.number(static_cast<std::uint8_t>(kind));
  if (kind == Kind::kRefusal) {
    writer.padded_text(reason, kRefusalWidth);
  } else {
    writer.number(static_cast<std::uint8_t>(without_tcp));
    writer.number(token);
    writer.number(proof);
    writer.number(static_cast<std::uint16_t>(address.size()));
    writer.raw(address);
    writer.number(static_cast<std::uint8_t>(wanted.size()));
    for (const std::string& one : wanted) writer.padded_text(one, kNicAddressWidth);
  }
  auto bytes = writer.take();
  bytes.resize(kBytes);
  return bytes;
}

Card Card::decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "card of UCX");
  if (const auto version = reader.number<std::uint16_t>(); version != kUcxCardVersion) {
    fail(Cause::kRemote, "card of UCX has version {}, this build reads {}: use one version on every host",
         version, kUcxCardVersion);
  }
  Card card;
  const auto kind = reader.number<std::uint8_t>();
  if (kind < static_cast<int>(Kind::kOffer) || kind > static_cast<int>(Kind::kRefusal))
    fail(Cause::kRemote, "card of UCX is of unknown kind {}", kind);
  card.kind = static_cast<Kind>(kind);
  if (card.kind == Kind::kRefusal) {
    card.reason = reader.padded_text(kRefusalWidth);
    return card;
  }
  card.without_tcp = reader.number<std::uint8_t>() != 0;
  card.token = reader.number<std::uint64_t>();
  card.proof = reader.number<std::uint64_t>();
  const auto length = reader.number<std::uint16_t>();
  if (length > kLongestAddress) {
    fail(Cause::kRemote, "card of UCX claims a worker's address of {} bytes; at most {} are allowed", length,
         kLongestAddress);
  }
  const auto address = reader.raw(length);
  card.address.assign(address.begin(), address.end());
  if (card.address.empty() && card.kind != Kind::kProved)
    fail(Cause::kRemote, "card of UCX has no worker's address");
  const auto wanted = reader.number<std::uint8_t>();
  if (wanted > kMostLanes) {
    fail(Cause::kRemote, "card of UCX names {} NICs; at most {} are allowed", wanted, kMostLanes);
  }
  for (int i = 0; i < wanted; ++i) card.wanted.push_back(reader.padded_text(kNicAddressWidth));
  return card;
}

}  // namespace tombolo::transport::ucx
