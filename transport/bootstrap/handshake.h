// How two ends come to trust a stream. Four messages, all of fixed size (docs/wire-protocol.md shows each
// byte):
//   connecting end -> Hello      who I am, whom I mean, which stream of which connection this is, a nonce
//   accepting end  -> Challenge  a status and a nonce
//   connecting end -> Proof      a MAC over both: "I hold the secret"
//   accepting end  -> Reply      a status, and a MAC over all of it: "so do I"; where it says kOk the stream
//                                belongs to its connection now
// The connecting end proves first, because anybody can reach a listening socket: an accepting end that
// answered strangers with a MAC would let them try texts for the secret at home, as fast as they can compute.
// A connecting end that gets no reply tries again, with a higher epoch. With TLS all of it runs inside
// (tls.h). The first eight bytes of Hello, Challenge and Reply (magic, version, size) never change between
// versions, so that two versions can tell each other apart. This version speaks with no other: in version 5
// the accepting end proved first, so that an end which still spoke it could be talked into it by anybody.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/nic.h"
#include "transport/endpoint.h"
#include "transport/sockets/secret.h"

namespace tombolo::transport::bootstrap {

inline constexpr std::uint16_t kProtocolVersion = 6;

using Nonce = std::array<std::byte, 16>;
using Mac = std::array<std::byte, 32>;

enum class HandshakeStatus : std::uint8_t {
  kOk = 0,
  kOtherVersion = 1,
  kOtherSecret = 2,
  kRefused = 3,       ///< values that make no sense
  kNoCarrier = 4,     ///< this end cannot use that carrier
  kGone = 5,          ///< there is no such listener or connection (any more)
  kTlsOff = 6,        ///< the stream came with TLS, which this end does not use between the two
  kTlsWanted = 7,     ///< the stream came without TLS, which this end wants between the two
  kOtherProcess = 8,  ///< the stream was meant for another process than the one that it has reached
};

/// What a stream is for.
enum class Purpose : std::uint8_t {
  kJoin = 0,    ///< one of the streams that a new connection begins with
  kRejoin = 1,  ///< takes the place of a stream of a connection that is there, or adds one
  kAsk = 2,     ///< carries nothing: the reply says whether the connection is still there
};

/// The part that every version shares.
struct Preamble {
  static constexpr std::size_t kBytes = 8;
  std::uint16_t version = kProtocolVersion;
  std::uint16_t size = 0;  ///< of the whole message
  /// Reads a preamble; nothing where the magic is wrong.
  static std::optional<Preamble> decode(std::span<const std::byte, kBytes> bytes) noexcept;
};

/// What an end says that cannot speak with the other: "the peer speaks protocol version 5, ...".
std::string other_version(std::string_view who, std::uint16_t version);

struct Hello {
  static constexpr std::size_t kBytes = 192;
  /// Streams of a connection are numbered below this.
  static constexpr std::uint16_t kMostStreams = 64;
  Nonce connection{};  ///< random, the same on all streams of one connection
  Nonce nonce{};
  /// Endpoint::process of the process that it is meant for: it is of no use at any other that holds the
  /// secret.
  std::uint64_t process = 0;
  std::uint64_t sender = 0;  ///< Endpoint::process of the connecting end
  std::uint16_t stream = 0, streams = 1;
  std::uint64_t label = 0;
  topology::NicKind kind = topology::NicKind::kTcp;
  bool emulated = false;
  /// kTcp: the stream carries payload; else the two ends agree on it how that carrier will.
  Carrier carrier = Carrier::kTcp;
  std::uint32_t patience_ms = 0;  ///< how long the connecting end will go on trying
  Purpose purpose = Purpose::kJoin;
  std::uint32_t listener = 0;  ///< kJoin: the listener that it is for (Endpoint::listener)
  /// Higher than those that the stream had before. A kJoin that comes again, because its reply was lost, has
  /// a higher one too, and takes the place of the stream that came first.
  std::uint32_t epoch = 0;
  std::uint32_t cluster = 0;     ///< Endpoint::cluster_id of the connecting end
  std::uint16_t reply_port = 0;  ///< where the connecting end's process accepts streams itself; 0 = nowhere
  std::string host, nic;         ///< cut at 64 and 32 bytes
  bool resumable = false;        ///< Route::resumable is wanted

  std::vector<std::byte> encode() const;
  /// Throws kRemote saying what is wrong.
  static Hello decode(std::span<const std::byte> bytes);
};

struct Challenge {
  static constexpr std::size_t kBytes = 32;
  /// Anything but kOk refuses the hello. Nobody has proved anything yet, so it is a hint and no more.
  HandshakeStatus status = HandshakeStatus::kOk;
  Nonce nonce{};

  std::vector<std::byte> encode() const;
  static Challenge decode(std::span<const std::byte> bytes);
};

struct Proof {
  static constexpr std::size_t kBytes = sizeof(Mac);
  Mac mac{};

  std::vector<std::byte> encode() const { return {mac.begin(), mac.end()}; }
  /// Throws kRemote where the bytes are too few.
  static Proof decode(std::span<const std::byte> bytes);
};

struct Reply {
  static constexpr std::size_t kBytes = 160;
  HandshakeStatus status = HandshakeStatus::kOk;
  std::string host, nic;   ///< of the accepting end
  bool resumable = false;  ///< both ends want it; a build that does not know of it answers no
  /// Resumable: the listener for the connection's further legs (routing/failover_connection.h); 0: a build
  /// that says so in its first record alone.
  std::uint32_t legs_listener = 0;
  /// All zero with kOtherSecret: who does not hold the secret learns nothing that depends on it.
  Mac mac{};

  std::vector<std::byte> encode() const;
  static Reply decode(std::span<const std::byte> bytes);
};

/// The MACs cover the whole Hello and Challenge, and the accepting end's the Reply up to its MAC, so no field
/// of any can be changed on the way; and `binding`, which only the two ends of one TLS session know (nothing
/// without TLS).
Mac proof_mac(const Secret& secret, std::span<const std::byte> hello, std::span<const std::byte> challenge,
              std::span<const std::byte> binding = {});
Mac reply_mac(const Secret& secret, std::span<const std::byte> hello, std::span<const std::byte> challenge,
              std::span<const std::byte> reply, std::span<const std::byte> binding = {});

}  // namespace tombolo::transport::bootstrap
