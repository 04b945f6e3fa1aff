// What the two ends tell each other of their ports and queue pairs before payload goes over RDMA.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/nic.h"

namespace tombolo::transport::rdma {

inline constexpr std::uint32_t k24Bits = 0xffffff;           ///< queue pair and packet sequence numbers
inline constexpr std::size_t kMostNicPairs = 4;              ///< pairs of NICs of one connection
inline constexpr std::size_t kMostQueuePairsPerNicPair = 8;  ///< queue pairs for payload
inline constexpr std::size_t kMostQueuePairs =
    1 + kMostNicPairs * kMostQueuePairsPerNicPair;  ///< the first is for control

/// Facts about a port that the other end must know.
struct PortFacts {
  topology::NicKind kind = topology::NicKind::kRoce;
  bool roce_v2 = false;
  std::uint16_t lid = 0;
  std::uint8_t mtu = 1;       ///< 128 << mtu bytes: 1 to 5
  std::uint32_t longest = 0;  ///< message in bytes that the port carries
  std::array<std::byte, 16> gid{};
  std::string nic;  ///< for messages
};

/// Why queue pairs of the two ports cannot be connected, whatever the network; empty where they can.
std::string why_not_together(const PortFacts& mine, const PortFacts& theirs);

/// One pair of NICs, as one end sees it.
struct NicPairFacts {
  PortFacts port;
  std::string
      peer_address;  ///< connecting end: of the peer's NIC, numeric, by which the peer knows which is meant
  std::uint32_t key = 0;  ///< remote key of this end's open area
};

struct QueuePairFacts {
  std::uint32_t number = 0;  ///< 24 bits
  std::uint32_t first = 0;   ///< packet sequence number that this end sends first, 24 bits
};

/// Every message of the set-up is one of these, and all have one size:
///   connecting -> kOffer     the NIC pairs it wants
///   accepting  -> kAnswer    the NIC pairs it keeps, its queue pairs and area
///   connecting -> kQueues    its queue pairs and area
///   accepting  -> kReady     its queue pairs are ready to receive and send
///   both       -> kProved    the other's test writes have arrived, and mine are acknowledged
/// and at any time kRefusal with the reason.
struct SetUpMessage {
  static constexpr std::size_t kBytes = 1024;
  enum class Kind : std::uint8_t { kOffer = 1, kAnswer, kQueues, kReady, kProved, kRefusal };

  Kind kind = Kind::kOffer;
  std::uint8_t queue_pairs_per_nic_pair = 1;
  std::uint32_t eager_bytes = 0;
  std::uint64_t area = 0;   ///< address of the open area, where the other end may write
  std::uint64_t token = 0;  ///< what the other end's test writes must bring
  std::vector<NicPairFacts> nic_pairs;
  std::array<bool, kMostNicPairs>
      kept{};  ///< kAnswer: which of the offered NIC pairs; `nic_pairs` has only those
  std::vector<QueuePairFacts> queue_pairs;
  std::string reason;  ///< kRefusal

  static SetUpMessage refusal(std::string_view reason);
  std::vector<std::byte> encode() const;
  /// The bytes come from the wire: throws kRemote saying what is wrong.
  static SetUpMessage decode(std::span<const std::byte> bytes);
};

}  // namespace tombolo::transport::rdma
