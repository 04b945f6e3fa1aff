#include "transport/shm/set_up_message.h"

#include <algorithm>

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
  writer.number(static_cast<std::uint8_t>(kind != Kind::kRefusal));
  writer.number(static_cast<std::uint8_t>(can_fetch));
  writer.number(descriptor);
  writer.number(process);
  writer.number(segment_bytes);
  writer.number(address);
  writer.number(value);
  writer.raw(token);
  writer.padded_text(reason, kShmReasonWidth);
  auto bytes = writer.take();
  bytes.resize(kBytes);
  return bytes;
}

SetUpMessage SetUpMessage::decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "set-up message of shared memory");
  SetUpMessage message;
  const bool ok = reader.number<std::uint8_t>() != 0;
  message.can_fetch = reader.number<std::uint8_t>() != 0;
  message.descriptor = reader.number<std::uint32_t>();
  message.process = reader.number<std::uint64_t>();
  message.segment_bytes = reader.number<std::uint64_t>();
  message.address = reader.number<std::uint64_t>();
  message.value = reader.number<std::uint64_t>();
  std::ranges::copy(reader.raw(message.token.size()), message.token.begin());
  message.reason = reader.padded_text(kShmReasonWidth);
  message.kind = !ok                                            ? Kind::kRefusal
                 : message.token != std::array<std::byte, 16>{} ? Kind::kOffer
                                                                : Kind::kProved;
  return message;
}

}  // namespace tombolo::transport::shm
