// How a TCP connection ends: by the peer's goodbye, by a failure, or because its owner closes it. Holds what
// ended it, and says what each end still owes the other. Asks no socket and no clock. Used by one thread at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "transport/tcp/stream/wire.h"

namespace tombolo::transport::tcp {

class Shutdown {
 public:
  enum class State : std::uint8_t {
    kOpen,      ///< lost streams are opened again
    kPeerLeft,  ///< the peer has closed the connection: no stream is opened again, those under way still come
    kFailed,    ///< nothing is carried any more
  };
  State state() const noexcept { return state_; }
  bool open() const noexcept { return state_ == State::kOpen; }
  bool peer_left() const noexcept { return state_ == State::kPeerLeft; }
  bool failed() const noexcept { return state_ == State::kFailed; }

  void peer_said_goodbye() noexcept {
    if (failed()) return;
    state_ = State::kPeerLeft;
    how_peer_left_.clear();
  }
  /// The peer does not know the connection any more. `how` says from what this end learnt that, unless a
  /// goodbye still comes.
  void peer_is_gone(std::string how) {
    if (!open()) return;
    state_ = State::kPeerLeft;
    how_peer_left_ = std::move(how);
  }
  /// Empty where the peer said goodbye.
  const std::string& how_peer_left() const noexcept { return how_peer_left_; }
  /// Whether the peer's leaving is the end: no stream is live, and none may still come (`answer_due`: the
  /// peer may have accepted an attempt, on which it said something before it left).
  bool complete(std::size_t live, bool answer_due) const noexcept {
    return peer_left() && live == 0 && !answer_due;
  }
  /// The peer has left it for another way, or knows it no more, which may mean that. Whoever carries its
  /// messages on finds out, since a peer that is gone makes no other way.
  void peer_left_for_another() noexcept {
    if (left_by_ == LeftBy::kNobody) left_by_ = LeftBy::kPeer;
  }
  /// This end leaves it for another way. False where it had done so before.
  bool leave_for_another() noexcept { return std::exchange(left_by_, LeftBy::kThisEnd) != LeftBy::kThisEnd; }
  bool left_for_another() const noexcept { return left_by_ != LeftBy::kNobody && failed(); }

  /// Fails the connection. False where it had failed before: the first failure counts.
  bool fail(Error error) noexcept;
  /// Why it failed; null while it has not.
  const Error* error() const noexcept { return error_ ? &*error_ : nullptr; }

  /// The owner closes the connection, and what was reported as sent has to reach the peer: within `longest`,
  /// and without a pause of `longest_quiet` in which nothing moves.
  void begin_flush(TimePoint now, Duration longest, Duration longest_quiet) noexcept {
    flush_until_ = now + longest;
    longest_quiet_ = longest_quiet;
  }
  /// Whether to go on with that: something is owed, there is time left, and something moved lately.
  bool flushes(TimePoint now, bool owes, Duration quiet_for) const noexcept;

  /// The frame that tells the peer of a failure. `about` describes it where the reason wants that.
  static FrameHeader goodbye(GoodbyeReason reason, const FrameHeader& about = {}) noexcept;
  /// What goes last on a stream: what it still had to say, the count of chunks received on it, for which the
  /// peer's sends may wait, and the goodbye.
  static std::vector<std::byte> last_words(std::vector<std::byte> rest, std::uint32_t count);

 private:
  /// Who left it first for another way, or this end, if it has.
  enum class LeftBy : std::uint8_t { kNobody, kPeer, kThisEnd };

  State state_ = State::kOpen;
  LeftBy left_by_ = LeftBy::kNobody;
  std::string how_peer_left_;
  std::optional<Error> error_;
  TimePoint flush_until_{};
  Duration longest_quiet_{};
};

}  // namespace tombolo::transport::tcp
