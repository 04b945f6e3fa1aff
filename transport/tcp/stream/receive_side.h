// The receiving side of one stream: what was read of it and is not used yet, which part of a frame comes
// next, and what its epoch has brought. Receiver reads it and places its chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "transport/request_pool.h"
#include "transport/tcp/stream/delayed_ack.h"
#include "transport/tcp/stream/staging.h"
#include "transport/tcp/stream/wire.h"

namespace tombolo::transport::tcp {

/// Used by one thread at a time.
class ReceiveSide {
 public:
  enum class State : std::uint8_t {
    kHeader,    ///< a frame's header comes next
    kPayload,   ///< the rest of a chunk comes next
    kHeldBack,  ///< the header of a chunk has come whose receive is not posted yet
    kDamaged,   ///< a frame was damaged on the way, and what follows cannot be used
    kEnded,     ///< nothing more comes, or nothing more is read
  };

  /// The stream has a new socket.
  void begin_epoch();

  /// The bound of reading ahead: what two kernels buffer at most by default, and one chunk of this build's.
  static constexpr std::size_t kMostAhead = 16 * 1024 * 1024;

  bool held_back() const noexcept { return state_ == State::kHeldBack; }
  /// Whether a read would use bytes, or tell of damage: no chunk waits for its receive to be posted.
  bool wants_data() const noexcept { return !held_back() && state_ != State::kEnded; }
  bool damaged() const noexcept { return state_ == State::kDamaged; }
  /// Whether it is worth reading behind the chunk that waits for its receive.
  bool may_read_ahead() const noexcept {
    return held_back() && peer_end_ == PeerEnd::kUnknown && staging_.size() < kMostAhead;
  }
  /// Whether the stream's end is known to lie behind a chunk that waits for its receive to be posted: the
  /// stream brings nothing new any more.
  bool ends_behind_a_chunk() const noexcept { return held_back() && peer_end_ != PeerEnd::kUnknown; }
  /// The peer said goodbye on the stream, which may be known before the chunks in front of it are delivered.
  bool said_goodbye() const noexcept {
    return peer_end_ == PeerEnd::kGoodbyeAhead || peer_end_ == PeerEnd::kGoodbye;
  }

  /// Whole chunks received in this epoch, and in all.
  std::uint32_t count() const noexcept { return ack_.count(); }
  std::uint64_t chunks() const noexcept { return chunks_; }
  /// The latest acknowledgement that came in this epoch.
  std::uint32_t peer_ack() const noexcept { return peer_ack_; }

  /// This end has nothing else to do: acknowledgements for which the peer does not wait yet may go out now.
  void idle() noexcept { ack_.idle(); }
  /// The acknowledgement was sent.
  void told() noexcept { ack_.told(); }

 private:
  friend class Receiver;

  /// What is known of the stream's end.
  enum class PeerEnd : std::uint8_t {
    kUnknown,
    kEndAhead,      // the peer's orderly end without a goodbye was seen behind the chunk that waits
    kGoodbyeAhead,  // a goodbye was seen there
    kGoodbye,       // the goodbye's turn has come
  };
  struct Place {
    std::uint64_t sequence, offset;
  };

  void take_ack(std::uint32_t ack) noexcept;

  State state_ = State::kEnded;
  PeerEnd peer_end_ = PeerEnd::kUnknown;
  Staging staging_;
  FrameHeader header_;                // of the chunk under way or held back
  PostedRequest* request_ = nullptr;  // of the chunk that is begun and not whole
  std::byte* to_ = nullptr;           // where the chunk's next byte goes
  std::size_t left_ = 0;              // of the chunk
  /// Where a chunk goes of which not all fits into its receive; null else. A checksum needs all of it.
  std::unique_ptr<std::byte[]> overlong_;
  std::optional<Place> last_;    // of the last chunk that was no replay
  bool last_was_large_ = false;  // the last chunk
  DelayedAck ack_;
  std::uint32_t peer_ack_ = 0;
  std::size_t pings_ = 0;
  std::uint64_t chunks_ = 0;
};

}  // namespace tombolo::transport::tcp
