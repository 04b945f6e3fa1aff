#include "transport/shm/set_up_message.h"

#include <algorithm>

#include "base/error.h"
#include "transport/bytes.h"

namespace tombolo::transport::shm {
namespace {

constexpr std::size_t kShmReasonWidth = 160;

}  // namespace

SetUpMessage SetUpMessage::refusal(std::string_view reason) {
  SetUpMessage message;
  message.kind = Kind::kRefusal;
  message.reason = reason.substr(0, kShmReasonWidth);
  return message;
}

std::vector<std::byte> SetUpMessage::encode() const {
  ByteWriter writer;
  writer.number(static_cast<std::uint8_t>(kind));
  writer.number(static_cast<std::uint8_t>(can_fetch));
  writer.number(descriptor);
  writer.number(process);
  writer.number(segment_bytes);
  writer.number(witness);
  writer.raw(nonce);
  writer.padded_text(reason, kShmReasonWidth);
  auto bytes = writer.take();
  bytes.resize(kBytes);
  return bytes;
}

SetUpMessage SetUpMessage::decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "set-up message of shared memory");
  SetUpMessage message;
  const auto kind = reader.number<std::uint8_t>();
  message.can_fetch = reader.number<std::uint8_t>() != 0;
  message.descriptor = reader.number<std::uint32_t>();
  message.process = reader.number<std::uint64_t>();
  message.segment_bytes = reader.number<std::uint64_t>();
  message.witness = reader.number<std::uint64_t>();
  std::ranges::copy(reader.raw(message.nonce.size()), message.nonce.begin());
  message.reason = reader.padded_text(kShmReasonWidth);
  if (kind < static_cast<int>(Kind::kOffer) || kind > static_cast<int>(Kind::kRefusal))
    fail(Cause::kRemote, "a set-up message of shared memory is of kind {}, which does not exist", kind);
  message.kind = static_cast<Kind>(kind);
  return message;
}

}  // namespace tombolo::transport::shm
