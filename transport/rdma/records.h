// What goes through the slots of the control queue pair: small messages and control records.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/rdma/area.h"

namespace tombolo::transport::rdma {

/// Starts every slot.
struct Header {
  enum class Type : std::uint8_t {
    kEager = 1,  ///< message `sequence` of `size` bytes follows
    kReceives,   ///< `count` posted receives follow
    kLarge,      ///< message `sequence` of `size` bytes waits for its receive
    kCredit      ///< nothing but the counters
  };
  Type type = Type::kCredit;
  std::uint8_t count = 0;
  std::uint32_t eager_taken =
      0;  ///< slots of the other end's small messages that are free again, modulo 2^32
  std::uint32_t control_taken = 0;  ///< slots of its control records that are free again
  std::uint64_t sequence = 0, size = 0;

  void write(std::span<std::byte, kHeaderBytes> to) const noexcept;
  /// Reads a header; nothing where the bytes are none.
  static std::optional<Header> read(std::span<const std::byte> from) noexcept;
};

/// A posted receive of which the sender was told: where message `sequence` may be written.
struct Advert {
  static constexpr std::size_t kBytes = 24 + 4 * kMostNicPairs;
  std::uint64_t sequence = UINT64_MAX, address = 0, capacity = 0;
  std::array<std::uint32_t, kMostNicPairs> keys{};

  void write(std::span<std::byte, kBytes> to) const noexcept;
  static Advert read(std::span<const std::byte, kBytes> from) noexcept;
};
inline constexpr std::size_t kMostAdverts = 64;
static_assert(kMostAdverts * Advert::kBytes <= kMostEager);

/// Immediate data of a part of a large message.
struct PartMark {
  std::uint16_t sequence = 0;  ///< modulo 2^16
  std::uint16_t parts = 0;     ///< of the message, each announced once
  std::uint32_t pack() const noexcept { return static_cast<std::uint32_t>(parts) << 16 | sequence; }
  static PartMark unpack(std::uint32_t bits) noexcept {
    return {static_cast<std::uint16_t>(bits), static_cast<std::uint16_t>(bits >> 16)};
  }
};

}  // namespace tombolo::transport::rdma
