#include "transport/ucx/set_up_message.h"

#include "base/error.h"
#include "transport/bytes.h"

namespace tombolo::transport::ucx {
namespace {

constexpr std::uint16_t kUcxSetUpMessageVersion = 2;
constexpr std::size_t kNicAddressWidth = 46, kRefusalWidth = 400;

}  // namespace

SetUpMessage SetUpMessage::refusal(std::string_view reason) {
  SetUpMessage message;
  message.kind = Kind::kRefusal;
  message.reason = reason.substr(0, kRefusalWidth);
  return message;
}

std::vector<std::byte> SetUpMessage::encode() const {
  TOMBOLO_CHECK(address.size() <= kLongestAddress && wanted.size() <= kMostNicPairs, "address={} wanted={}",
                address.size(), wanted.size());
  ByteWriter writer;
  writer.number(kUcxSetUpMessageVersion);
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

SetUpMessage SetUpMessage::decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "set-up message of UCX");
  if (const auto version = reader.number<std::uint16_t>(); version != kUcxSetUpMessageVersion) {
    fail(Cause::kRemote,
         "set-up message of UCX has version {}, this build reads {}: use one version on every host", version,
         kUcxSetUpMessageVersion);
  }
  SetUpMessage message;
  const auto kind = reader.number<std::uint8_t>();
  if (kind < static_cast<int>(Kind::kOffer) || kind > static_cast<int>(Kind::kRefusal))
    fail(Cause::kRemote, "set-up message of UCX is of unknown kind {}", kind);
  message.kind = static_cast<Kind>(kind);
  if (message.kind == Kind::kRefusal) {
    message.reason = reader.padded_text(kRefusalWidth);
    return message;
  }
  message.without_tcp = reader.number<std::uint8_t>() != 0;
  message.token = reader.number<std::uint64_t>();
  message.proof = reader.number<std::uint64_t>();
  const auto length = reader.number<std::uint16_t>();
  if (length > kLongestAddress) {
    fail(Cause::kRemote,
         "set-up message of UCX claims a worker's address of {} bytes; at most {} are allowed", length,
         kLongestAddress);
  }
  const auto address = reader.raw(length);
  message.address.assign(address.begin(), address.end());
  if (message.address.empty() && message.kind != Kind::kProved)
    fail(Cause::kRemote, "set-up message of UCX has no worker's address");
  const auto wanted = reader.number<std::uint8_t>();
  if (wanted > kMostNicPairs) {
    fail(Cause::kRemote, "set-up message of UCX names {} NICs; at most {} are allowed", wanted,
         kMostNicPairs);
  }
  for (int i = 0; i < wanted; ++i) message.wanted.push_back(reader.padded_text(kNicAddressWidth));
  return message;
}

}  // namespace tombolo::transport::ucx
