// What the two ends tell each other of their shared memory before payload goes through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/shm/peer_memory.h"
#include "transport/shm/segment.h"

namespace tombolo::transport::shm {

/// Every message of the set-up is one of these, and all have one size:
///   connecting -> kOffer    its process, its segment, and a nonce for the other end to keep
///   accepting  -> kAnswer   its process, where it keeps that nonce, and a nonce of its own
///   connecting -> kProved   it keeps that nonce, in its memory and in the segment; whether it could read the
///                           other's memory
///   accepting  -> kProved   it has mapped the segment; whether it could read the other's memory
/// and at any time kRefusal with the reason. Nothing of a process is read before it keeps the nonce of the
/// end that reads, since a peer may say to be another process.
struct SetUpMessage {
  static constexpr std::size_t kBytes = 256;
  enum class Kind : std::uint8_t { kOffer = 1, kAnswer, kProved, kRefusal };

  Kind kind = Kind::kProved;
  bool can_fetch = false;        ///< kProved: this end may read the other's memory
  std::uint32_t descriptor = 0;  ///< kOffer: of the segment's file, in the sending process
  std::uint64_t process = 0;     ///< kOffer, kAnswer
  std::uint64_t segment_bytes = sizeof(Segment);
  std::uint64_t witness = 0;  ///< kOffer, kAnswer: the address at which this end keeps the other's nonce
  Nonce nonce{};              ///< kOffer, kAnswer: for the other end to keep
  std::string reason;         ///< kRefusal

  static SetUpMessage refusal(std::string_view reason);
  std::vector<std::byte> encode() const;
  /// The bytes come from the wire: throws kRemote where there are too few, or of no known kind.
  static SetUpMessage decode(std::span<const std::byte> bytes);
};

}  // namespace tombolo::transport::shm
