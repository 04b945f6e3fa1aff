// The sending side of one stream: the frames that the stream has taken on, in the order in which they go out,
// and what it lost with earlier sockets. Sender decides what is taken on, and writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "transport/tcp/stream/wire.h"

namespace tombolo::transport::tcp {

/// Used by one thread at a time.
class SendSide {
 public:
  /// The stream has a new socket: nothing is written to it yet, and nothing acknowledged. What is known of
  /// the epoch before is kept.
  void begin_epoch();

  /// Puts a frame without payload before what is not begun yet, because it is small and the peer waits for
  /// it. False where there is no room.
  bool say(const FrameHeader& header) noexcept;

  /// Whether only part of a frame is written, so that only the rest of it may follow.
  bool mid_frame() const noexcept { return written_of_first_ != 0; }
  /// Whether only part of a chunk is written.
  bool mid_chunk() const noexcept { return mid_frame() && at(written_).chunk; }
  /// What may still be written at the connection's end: the rest of a frame that is begun, and the frames
  /// without payload behind it, up to the first chunk. Nothing where a chunk is begun.
  std::vector<std::byte> last_words() const;

  /// Chunks written so far, in all epochs, and how many of them were there before.
  std::uint64_t chunks() const noexcept { return chunks_; }
  std::uint64_t replayed() const noexcept { return replayed_; }

 private:
  friend class Sender;

  // The most chunks that are under way at once, and room for frames without payload.
  static constexpr std::size_t kChunks = 1024, kSegments = 2 * kChunks;
  // Segments per write, of two iovecs each. More than 32 messages per call gain nothing measurable.
  static constexpr std::size_t kBatch = 32;

  struct Segment {
    HeaderBytes header;
    const std::byte* data;
    std::uint64_t sequence;
    std::uint32_t length;
    bool chunk;
  };
  /// An epoch of which the peer has not told yet what arrived.
  struct LostEpoch {
    std::uint32_t epoch = 0, acknowledged = 0;
    std::vector<FrameHeader> chunks;  // the oldest first
  };

  Segment& at(std::size_t count) noexcept { return segments_[count % kSegments]; }
  const Segment& at(std::size_t count) const noexcept { return segments_[count % kSegments]; }
  bool has_room(std::size_t backlog) const noexcept {
    return end_ - written_ < kBatch && end_ - begin_ < kChunks && queued_ < backlog;
  }
  void clear() noexcept;

  std::unique_ptr<Segment[]> segments_;
  // Running counts; an index in the ring is the count modulo kSegments. Segments before `written` wait for
  // their acknowledgement.
  std::size_t begin_ = 0, written_ = 0, end_ = 0;
  std::size_t queued_ = 0;            // payload bytes not yet written
  std::size_t written_of_first_ = 0;  // bytes of the segment at `written`
  std::uint32_t acknowledged_ = 0;    // chunks of this epoch
  // TLS took bytes that the socket has not taken yet, up to byte `owed`; they belong to messages that are
  // done.
  bool pending_ = false;
  std::uint64_t owed_ = 0;
  // Chunks to send again, last first. They are sent on this very stream: on another, one could lie behind a
  // newer chunk whose receive the peer posts only after it has received this one.
  std::vector<FrameHeader> again_;
  std::optional<LostEpoch> lost_;  // while it is there, no chunk is taken on
  std::uint64_t chunks_ = 0, replayed_ = 0;
};

}  // namespace tombolo::transport::tcp
