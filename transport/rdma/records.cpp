#include "transport/rdma/records.h"

#include "transport/bytes.h"

namespace tombolo::transport::rdma {

// Layout, little-endian: u8 type, u8 count, u16 zero, u32 eager taken, u32 control taken, u32 zero, u64
// sequence, u64 size.
void Header::write(std::span<std::byte, kHeaderBytes> to) const noexcept {
  store_little_endian(&to[0], static_cast<std::uint32_t>(static_cast<unsigned>(type) | unsigned{count} << 8));
  store_little_endian(&to[4], eager_taken);
  store_little_endian(&to[8], control_taken);
  store_little_endian(&to[12], std::uint32_t{0});
  store_little_endian(&to[16], sequence);
  store_little_endian(&to[24], size);
}

std::optional<Header> Header::read(std::span<const std::byte> from) noexcept {
  if (from.size() < kHeaderBytes) return std::nullopt;
  const auto first = load_little_endian<std::uint32_t>(&from[0]);
  const std::uint32_t type = first & 0xff;
  if (type < static_cast<std::uint32_t>(Type::kEager) || type > static_cast<std::uint32_t>(Type::kCredit) ||
      first >> 16 != 0 || load_little_endian<std::uint32_t>(&from[12]) != 0) {
    return std::nullopt;
  }
  Header header;
  header.type = static_cast<Type>(type);
  header.count = static_cast<std::uint8_t>(first >> 8);
  header.eager_taken = load_little_endian<std::uint32_t>(&from[4]);
  header.control_taken = load_little_endian<std::uint32_t>(&from[8]);
  header.sequence = load_little_endian<std::uint64_t>(&from[16]);
  header.size = load_little_endian<std::uint64_t>(&from[24]);
  const std::size_t payload = from.size() - kHeaderBytes;
  const std::size_t due = header.type == Type::kEager      ? header.size
                          : header.type == Type::kReceives ? header.count * Advert::kBytes
                                                           : 0;
  if (payload != due ||
      (header.type == Type::kReceives && (header.count == 0 || header.count > kMostAdverts)))
    return std::nullopt;
  return header;
}

void Advert::write(std::span<std::byte, kBytes> to) const noexcept {
  store_little_endian(&to[0], sequence);
  store_little_endian(&to[8], address);
  store_little_endian(&to[16], capacity);
  for (std::size_t i = 0; i < kMostNicPairs; ++i) store_little_endian(&to[24 + 4 * i], keys[i]);
}

Advert Advert::read(std::span<const std::byte, kBytes> from) noexcept {
  Advert advert;
  advert.sequence = load_little_endian<std::uint64_t>(&from[0]);
  advert.address = load_little_endian<std::uint64_t>(&from[8]);
  advert.capacity = load_little_endian<std::uint64_t>(&from[16]);
  for (std::size_t i = 0; i < kMostNicPairs; ++i)
    advert.keys[i] = load_little_endian<std::uint32_t>(&from[24 + 4 * i]);
  return advert;
}

}  // namespace tombolo::transport::rdma
