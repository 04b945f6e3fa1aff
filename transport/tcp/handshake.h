// How two ends come to trust a stream. Three messages, all of fixed size:
//   connecting end -> Hello   who I am, which stream of which connection this is, a nonce
//   accepting end  -> Reply   a status, a nonce, and a MAC over both nonces: "I hold the secret"
//   connecting end -> Finish  a status and a MAC: "so do I"
// The first eight bytes of Hello and Reply (magic, version, size) never change between versions, so that two
// versions can tell each other apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "topology/nic.h"
#include "transport/secret.h"

namespace tombolo::transport::tcp {

inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr std::uint16_t kMostStreams = 64;

using Nonce = std::array<std::byte, 16>;
using Mac = std::array<std::byte, 32>;

enum class HandshakeStatus : std::uint8_t {
  kOk = 0,
  kOtherVersion = 1,
  kOtherSecret = 2,
  kRefused = 3,  ///< values that make no sense
};

/// The part that every version shares.
struct Preamble {
  static constexpr std::size_t kBytes = 8;
  std::uint16_t version = kProtocolVersion;
  std::uint16_t size = 0;  ///< of the whole message
  /// Nothing where the magic is wrong.
  static std::optional<Preamble> decode(std::span<const std::byte, kBytes> bytes) noexcept;
};

struct Hello {
  static constexpr std::size_t kBytes = 192;
  Nonce connection{};  ///< random, the same on all streams of one connection
  Nonce nonce{};
  std::uint16_t stream = 0, streams = 1;
  std::uint64_t label = 0;
  topology::NicKind kind = topology::NicKind::kTcp;
  bool emulated = false;
  std::string host, nic;  ///< cut at 64 and 32 bytes

  std::vector<std::byte> encode() const;
  /// Throws kRemote saying what is wrong.
  static Hello decode(std::span<const std::byte> bytes);
};

struct Reply {
  static constexpr std::size_t kBytes = 160;
  HandshakeStatus status = HandshakeStatus::kOk;
  Nonce nonce{};
  std::string host, nic;
  Mac mac{};

  std::vector<std::byte> encode() const;
  static Reply decode(std::span<const std::byte> bytes);
};

struct Finish {
  static constexpr std::size_t kBytes = 40;
  HandshakeStatus status = HandshakeStatus::kOk;
  Mac mac{};

  std::vector<std::byte> encode() const;
  static Finish decode(std::span<const std::byte> bytes);
};

/// The MACs cover the whole Hello and the Reply up to its MAC, so no field of either can be changed on the
/// way.
Mac reply_mac(const Secret& secret, std::span<const std::byte> hello, std::span<const std::byte> reply);
Mac finish_mac(const Secret& secret, std::span<const std::byte> hello, std::span<const std::byte> reply);

}  // namespace tombolo::transport::tcp
