#include "transport/goodbye.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "transport/bytes.h"

namespace tombolo::transport {
namespace {

constexpr std::size_t kGoodbyeTextWidth = 200;
// On a control channel the reasons are numbered from 1 in this order.
constexpr std::array kOnChannel{GoodbyeReason::kClosed, GoodbyeReason::kTooLarge, GoodbyeReason::kFailed,
                                GoodbyeReason::kPathFailed};

}  // namespace

std::string peer_closed(GoodbyeReason reason, std::uint64_t size, std::uint64_t capacity,
                        std::string_view error) {
  switch (reason) {
    case GoodbyeReason::kClosed:
      return "the peer closed the connection";
    case GoodbyeReason::kTooLarge:
      return fmt::format("the peer closed it: a message of {} bytes, but the receive posted for it takes {}",
                         size, capacity);
    case GoodbyeReason::kMalformed:
      return "the peer closed it: it could not make sense of the bytes it received";
    case GoodbyeReason::kTimeout:
      return "the peer closed it: no progress for too long";
    case GoodbyeReason::kPathFailed:
      return fmt::format("the peer says that the way has failed{}{}", error.empty() ? "" : ": ", error);
    case GoodbyeReason::kFailed:
      break;
  }
  return fmt::format("the peer closed it after a failure of its own{}{}", error.empty() ? "" : ": ", error);
}

void Goodbye::say(std::string_view error) noexcept {
  try {
    text = error.substr(0, kGoodbyeTextWidth);
  } catch (const std::exception&) {  // the reason alone then says it
  }
}

std::array<std::byte, Goodbye::kBytes> Goodbye::encode() const {
  const auto at = std::ranges::find(kOnChannel, reason);
  TOMBOLO_CHECK(at != kOnChannel.end(), "reason={}", static_cast<int>(reason));
  std::array<std::byte, kBytes> bytes{};
  std::byte* to = bytes.data();
  *to++ = static_cast<std::byte>(at - kOnChannel.begin() + 1);
  for (std::uint64_t one : {sent, written, received, size, capacity}) {
    store_little_endian(to, one);
    to += sizeof one;
  }
  std::memcpy(to, text.data(), std::min(text.size(), kGoodbyeTextWidth));
  to[kGoodbyeTextWidth] = static_cast<std::byte>(pairs.to_ulong());
  return bytes;
}

Goodbye Goodbye::decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "goodbye");
  Goodbye goodbye;
  const auto reason = reader.number<std::uint8_t>();
  if (reason < 1 || reason > kOnChannel.size()) fail(Cause::kRemote, "goodbye for unknown reason {}", reason);
  goodbye.reason = kOnChannel[reason - 1U];
  for (std::uint64_t* one :
       {&goodbye.sent, &goodbye.written, &goodbye.received, &goodbye.size, &goodbye.capacity})
    *one = reader.number<std::uint64_t>();
  goodbye.text = reader.padded_text(kGoodbyeTextWidth);
  goodbye.pairs = reader.number<std::uint8_t>();
  return goodbye;
}

}  // namespace tombolo::transport
