// What the two ends tell each other of their UCX workers before payload goes over UCX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tombolo::transport::ucx {

inline constexpr std::size_t kMostNicPairs = 4;           ///< pairs of NICs of one connection
inline constexpr std::size_t kLongestAddress = 4 * 1024;  ///< of a worker

/// Every message of the set-up is one of these, and all have one size:
///   connecting -> kOffer    its worker, the NICs of the peer that it would use
///   accepting  -> kAnswer   its worker
///   both       -> kProved   the other's test messages have arrived
/// and at any time kRefusal with the reason.
struct SetUpMessage {
  static constexpr std::size_t kBytes = 5 * 1024;
  enum class Kind : std::uint8_t { kOffer = 1, kAnswer, kProved, kRefusal };

  Kind kind = Kind::kOffer;
  bool without_tcp = false;         ///< UCX's own tcp is not to be used
  std::uint64_t token = 0;          ///< from which the tags of all messages to this end are made
  std::uint64_t proof = 0;          ///< what the other end's test messages must bring
  std::vector<std::byte> address;   ///< of the worker
  std::vector<std::string> wanted;  ///< kOffer: addresses of the peer's NICs, numeric
  std::string reason;               ///< kRefusal

  static SetUpMessage refusal(std::string_view reason);
  std::vector<std::byte> encode() const;
  /// The bytes come from the wire: throws kRemote saying what is wrong.
  static SetUpMessage decode(std::span<const std::byte> bytes);
};

}  // namespace tombolo::transport::ucx
