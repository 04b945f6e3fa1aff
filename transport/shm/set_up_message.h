// What the two ends tell each other of their shared memory before payload goes through it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/shm/segment.h"

namespace tombolo::transport::shm {

/// Every message of the set-up is one of these, and all have one size:
///   connecting -> kOffer    its segment, and a value in its memory that the peer may try to read
///   accepting  -> kProved   it has mapped the segment; whether it could read the value; a value of its own
///   connecting -> kProved   whether it could read that
/// and at any time kRefusal with the reason.
struct SetUpMessage {
  static constexpr std::size_t kBytes = 256;
  /// The kind is not sent as such: only an offer has a token, and only a refusal is not ok.
  enum class Kind : std::uint8_t { kOffer = 1, kProved, kAnswer = kProved, kRefusal };

  Kind kind = Kind::kProved;
  bool can_fetch = false;        ///< kProved: this end may read the other's memory
  std::uint32_t descriptor = 0;  ///< kOffer: of the segment's file, in the sending process
  std::uint64_t process = 0;
  std::uint64_t segment_bytes = sizeof(Segment);
  std::uint64_t address = 0;  ///< of eight bytes that hold `value`
  std::uint64_t value = 0;
  std::array<std::byte, 16> token{};  ///< kOffer: the segment's; random, so never zero
  std::string reason;                 ///< kRefusal

  static SetUpMessage refusal(std::string_view reason);
  std::vector<std::byte> encode() const;
  /// The bytes come from the wire: throws kRemote where there are too few.
  static SetUpMessage decode(std::span<const std::byte> bytes);
};

}  // namespace tombolo::transport::shm
