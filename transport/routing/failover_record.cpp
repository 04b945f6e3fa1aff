#include "transport/routing/failover_record.h"

#include "base/error.h"
#include "transport/bytes.h"

namespace tombolo::transport {
namespace {

constexpr std::uint32_t kMagic = 0x4f464d54;  // "TMFO" in the bytes' order
constexpr std::size_t kHead = 4 + 1 + 8 + FailoverRecord::kBits / 8 + 2;

}  // namespace

std::vector<std::byte> FailoverRecord::encode() const {
  ByteWriter writer;
  writer.number(kMagic);
  writer.number(kVersion);
  writer.number(prefix);
  for (std::size_t byte = 0; byte < kBits / 8; ++byte) {
    std::uint8_t bits = 0;
    for (std::size_t i = 0; i < 8; ++i)
      if (beyond[8 * byte + i]) bits |= static_cast<std::uint8_t>(1U << i);
    writer.number(bits);
  }
  const std::vector<std::byte> at = endpoint.encode_compact(kBytes - kHead);
  writer.number(static_cast<std::uint16_t>(at.size()));
  writer.raw(at);
  std::vector<std::byte> bytes = writer.take();
  bytes.resize(kBytes);
  return bytes;
}

FailoverRecord FailoverRecord::decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "failover record");
  if (reader.number<std::uint32_t>() != kMagic) fail(Cause::kRemote, "no failover record where one was due");
  if (const auto version = reader.number<std::uint8_t>(); version != kVersion) {
    fail(Cause::kRemote,
         "failover record of version {}, this build speaks {} and no other; use one version on every host",
         version, kVersion);
  }
  FailoverRecord record;
  record.prefix = reader.number<std::uint64_t>();
  for (std::size_t byte = 0; byte < kBits / 8; ++byte) {
    const auto bits = reader.number<std::uint8_t>();
    for (std::size_t i = 0; i < 8; ++i) record.beyond[8 * byte + i] = (bits >> i & 1) != 0;
  }
  record.endpoint = Endpoint::decode(reader.raw(reader.number<std::uint16_t>()));
  return record;
}

}  // namespace tombolo::transport
