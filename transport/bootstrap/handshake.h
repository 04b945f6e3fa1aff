// How two ends come to trust a stream. Four messages, all of fixed size:
//   connecting end -> Hello   who I am, which stream of which connection this is, a nonce
//   accepting end  -> Reply   a status, a nonce, and a MAC over both nonces: "I hold the secret"
//   connecting end -> Finish  a status and a MAC: "so do I"
//   accepting end  -> Verdict one byte, a status: the stream belongs to its connection now
// A connecting end that gets no verdict tries again.
// With TLS all of it runs inside (tls.h).
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
#include "transport/bootstrap/secret.h"
#include "transport/endpoint.h"

namespace tombolo::transport::bootstrap {

inline constexpr std::uint16_t kProtocolVersion = 5;

using Nonce = std::array<std::byte, 16>;
using Mac = std::array<std::byte, 32>;

enum class HandshakeStatus : std::uint8_t {
  kOk = 0,
  kOtherVersion = 1,
  kOtherSecret = 2,
  kRefused = 3,    ///< values that make no sense
  kNoCarrier = 4,  ///< this end cannot use that carrier
  kGone = 5,       ///< there is no such listener or connection (any more)
  kTlsOff = 6,     ///< the stream came with TLS, which this end does not use between the two
  kTlsWanted = 7,  ///< the stream came without TLS, which this end wants between the two
};

/// What a stream is for.
enum class Purpose : std::uint8_t {
  kJoin = 0,    ///< one of the streams that a new connection begins with
  kRejoin = 1,  ///< takes the place of a stream of a connection that is there, or adds one
  kAsk = 2,     ///< carries nothing: the verdict says whether the connection is still there
};

/// The part that every version shares.
struct Preamble {
  static constexpr std::size_t kBytes = 8;
  std::uint16_t version = kProtocolVersion;
  std::uint16_t size = 0;  ///< of the whole message
  /// Reads a preamble; nothing where the magic is wrong.
  static std::optional<Preamble> decode(std::span<const std::byte, kBytes> bytes) noexcept;
};

struct Hello {
  static constexpr std::size_t kBytes = 192;
  /// Streams of a connection are numbered below this.
  static constexpr std::uint16_t kMostStreams = 64;
  Nonce connection{};  ///< random, the same on all streams of one connection
  Nonce nonce{};
  std::uint16_t stream = 0, streams = 1;
  std::uint64_t label = 0;
  topology::NicKind kind = topology::NicKind::kTcp;
  bool emulated = false;
  /// kTcp: the stream carries payload; else the two ends agree on it how that carrier will.
  Carrier carrier = Carrier::kTcp;
  std::uint32_t patience_ms = 0;  ///< how long the connecting end will go on trying
  Purpose purpose = Purpose::kJoin;
  std::uint32_t listener = 0;    ///< kJoin: the listener that it is for (Endpoint::listener)
  std::uint32_t epoch = 0;       ///< kRejoin: higher than those that the stream had before
  std::uint32_t cluster = 0;     ///< Endpoint::cluster_id of the connecting end
  std::uint16_t reply_port = 0;  ///< where the connecting end's process accepts streams itself; 0 = nowhere
  std::string host, nic;         ///< cut at 64 and 32 bytes

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

inline constexpr std::size_t kVerdictBytes = 1;

/// The MACs cover the whole Hello and the Reply up to its MAC, so no field of either can be changed on the
/// way; and `binding`, which only the two ends of one TLS session know (nothing without TLS).
Mac reply_mac(const Secret& secret, std::span<const std::byte> hello, std::span<const std::byte> reply,
              std::span<const std::byte> binding = {});
Mac finish_mac(const Secret& secret, std::span<const std::byte> hello, std::span<const std::byte> reply,
               std::span<const std::byte> binding = {});

}  // namespace tombolo::transport::bootstrap
