// How one end of a connection tells the other that it closes: the reasons, which all transports share, and
// the message that goes over the control channel of a connection whose bytes go another way.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tombolo::transport {

/// The values are on the wire in TCP's frames and in the records of shared memory.
enum class GoodbyeReason : std::uint8_t {
  kClosed = 0,     ///< the connection was destroyed
  kTooLarge = 1,   ///< a message was larger than its receive
  kMalformed = 2,  ///< the peer's bytes made no sense
  kTimeout = 3,    ///< the peer made no progress for too long
  kFailed = 4,     ///< another failure of the end that says this
  /// The way has failed, and not the end that says this: the messages are to go on over another one. Said
  /// only where both ends have agreed on that (Route::resumable).
  kPathFailed = 5,
};

/// The text of the other end's error: "the peer closed it: ...". For kTooLarge, `size` is that of the
/// message and `capacity` that of its receive. For kFailed and kPathFailed, `error` is the failure's text,
/// which may be empty.
std::string peer_closed(GoodbyeReason reason, std::uint64_t size = 0, std::uint64_t capacity = 0,
                        std::string_view error = {});

/// The last message on a control channel. Its counts tell the other end how many messages are still to come,
/// and how many of its own have arrived.
struct Goodbye {
  static constexpr std::size_t kBytes = 256;

  GoodbyeReason reason = GoodbyeReason::kClosed;  ///< any but kMalformed and kTimeout
  std::uint64_t sent = 0;      ///< messages that count as sent; over RDMA those that went through slots
  std::uint64_t written = 0;   ///< over RDMA: messages written into the other end's receives and completed
  std::uint64_t received = 0;  ///< messages before this one are in the receives of the end that says this
  std::uint64_t size = 0;      ///< kTooLarge: of the message
  std::uint64_t capacity = 0;  ///< kTooLarge: of the receive
  std::string text;            ///< kFailed, kPathFailed: the error
  static constexpr std::size_t kMostPairs = 8;
  std::bitset<kMostPairs>
      pairs{};  ///< kPathFailed: the pairs of NICs that failed, in the order of the set-up

  /// Keeps the text of an error; none where memory is short.
  void say(std::string_view error) noexcept;
  /// Takes no memory, so that it can be said while that is short.
  std::array<std::byte, kBytes> encode() const;
  /// The bytes come from the wire: throws kRemote saying what is wrong.
  static Goodbye decode(std::span<const std::byte> bytes);
};

}  // namespace tombolo::transport
