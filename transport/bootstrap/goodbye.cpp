#include "transport/bootstrap/goodbye.h"

#include "base/error.h"
#include "transport/bytes.h"

namespace tombolo::transport::bootstrap {
namespace {

constexpr std::size_t kGoodbyeTextWidth = 200;

}  // namespace

std::vector<std::byte> Goodbye::encode() const {
  ByteWriter writer;
  writer.number(static_cast<std::uint8_t>(why));
  for (std::uint64_t one : {sent, written, received, size, capacity}) writer.number(one);
  writer.padded_text(text, kGoodbyeTextWidth);
  auto bytes = writer.take();
  bytes.resize(kBytes);
  return bytes;
}

Goodbye Goodbye::decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "goodbye");
  Goodbye goodbye;
  const auto why = reader.number<std::uint8_t>();
  if (why < static_cast<int>(Why::kClosed) || why > static_cast<int>(Why::kFailed))
    fail(Cause::kRemote, "goodbye for unknown reason {}", why);
  goodbye.why = static_cast<Why>(why);
  for (std::uint64_t* one :
       {&goodbye.sent, &goodbye.written, &goodbye.received, &goodbye.size, &goodbye.capacity})
    *one = reader.number<std::uint64_t>();
  goodbye.text = reader.padded_text(kGoodbyeTextWidth);
  return goodbye;
}

}  // namespace tombolo::transport::bootstrap
