// The sending half of a connection: what its streams share. It cuts posted messages into chunks, which each
// stream takes on when it has room, and keeps the messages until the peer has acknowledged them. What a
// stream has taken on is its own (send_side.h). Used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/request_pool.h"
#include "transport/tcp/stream/replay_buffer.h"
#include "transport/tcp/stream/stream.h"
#include "transport/tcp/stream/wire.h"

namespace tombolo::transport::tcp {

struct SenderOptions {
  std::size_t chunk = kLongestChunk;  ///< most payload bytes per chunk
  std::size_t backlog = SIZE_MAX;     ///< bytes that a stream takes on before it has written them
  /// Messages up to the first size are copied, as far as there is room. Up to the second size they are copied
  /// where no other message waits, because nothing then hides the round trip of an acknowledgement.
  std::size_t copy_up_to = 32 * 1024, copy_alone_up_to = 128 * 1024;
  std::size_t replay_bytes = 512 * 1024;  ///< for the copies
  bool checksums = false;
};

class Sender {
 public:
  explicit Sender(const SenderOptions& options);

  bool can_post() const noexcept { return posted_ - oldest_ < kMessages; }
  /// Posts a message. Its request is done once the message was acknowledged, or, where there is room for a
  /// copy, once the kernel has it; the copy is made after that, when no caller waits for it.
  void post(PostedRequest* request) noexcept;

  /// The stream broke, and is not closed yet. It carries nothing more; what was not acknowledged on it is
  /// kept until resolve_epoch().
  void lose(Stream& stream);
  /// The peer took `count` chunks in each of these epochs of the stream; the others are sent again, once the
  /// stream is joined. False where the count is higher than what was sent.
  bool resolve_epoch(Stream& stream, std::uint32_t first_epoch, std::uint32_t last_epoch,
                     std::uint32_t count);
  /// The peer has taken `count` chunks (modulo 2^32) from the stream in this epoch. False where the count is
  /// higher than what was sent.
  bool acknowledge(Stream& stream, std::uint32_t count) noexcept;
  /// Whether flush() would take on another chunk, whose header then carries the acknowledgement.
  bool takes_more(const Stream& stream) const noexcept {
    const SendSide& side = stream.send;
    return can_pull(side) && side.has_room(options_.backlog) && !side.pending_;
  }

  /// Changes the sizes by which messages are cut from now on.
  void set_pieces(std::size_t chunk, std::size_t backlog) noexcept {
    options_.chunk = chunk;
    options_.backlog = backlog;
  }

  struct Result {
    std::size_t written = 0;  ///< bytes, with headers
    bool blocked = false;     ///< the socket has no room
    int error = 0;            ///< errno of a failed write
  };
  /// Writes to a stream that is live, until there is nothing to write, the socket is full, or `allowance`
  /// bytes are used up. The headers of what is taken on now acknowledge what came on the stream.
  Result flush(Stream& stream, std::size_t allowance) noexcept;

  /// Whether the stream has something to write.
  bool has_work(const Stream& stream) const noexcept {
    const SendSide& side = stream.send;
    return stream.live() && (side.written_ != side.end_ || side.pending_ || can_pull(side));
  }
  /// True while bytes of posted messages are not in the kernel.
  bool unwritten() const noexcept { return unwritten_ != 0 || next_ != posted_ || again_ != 0; }
  /// Whether there are messages that the peer has not acknowledged.
  bool unacknowledged() const noexcept { return oldest_ != posted_; }
  /// Whether a request waits whose message was not copied.
  bool waiting() const noexcept { return waiting_ != 0; }
  /// Whether acknowledgements should be read now, because posting would stall otherwise.
  bool crowded() const noexcept { return many_unacknowledged() || replay_.used() > replay_.capacity() / 2; }
  /// Whether it is unknown of some chunks of broken streams if they arrived.
  bool unresolved() const noexcept { return unresolved_ != 0; }
  /// Whether chunks wait to be sent again, for which the stream that lost them has to come back.
  bool sends_again() const noexcept { return again_ != 0; }

  /// Whether a message whose request is done has to be sent again on the stream, or may have to be.
  /// `in_doubt`: the peer may drop the stream's present epoch, so that this holds for all that it has not
  /// acknowledged.
  bool owes(const Stream& stream, bool in_doubt) const noexcept;

  /// Calls take(sequence, bytes) for each message whose request is done and which the peer has not
  /// acknowledged, in order; the bytes are the copy. Only once nothing is written any more.
  template <typename Take>
  void for_each_in_doubt(Take&& take) const {
    for (std::uint64_t sequence = oldest_; sequence != posted_; ++sequence) {
      const Message& one = messages_[sequence % kMessages];
      if (one.request == nullptr && !one.finished) take(sequence, std::span(one.data, one.size));
    }
  }

  /// Messages of any size are copied, up to so many bytes in all. For long paths, where a request that waits
  /// for its acknowledgement costs a round trip. Only before the first message is posted.
  void copy_everything(std::size_t replay_bytes) noexcept;

  /// Sequence number of the oldest unacknowledged message, and its size.
  std::uint64_t oldest() const noexcept { return oldest_; }
  std::size_t oldest_size() const noexcept { return messages_[oldest_ % kMessages].size; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t messages() const noexcept { return completed_; }
  std::uint64_t acknowledged_bytes() const noexcept { return acknowledged_bytes_; }

 private:
  // Small messages are acknowledged in batches, so more of them are under way than there are requests.
  static constexpr std::size_t kMessages = 2048;

  struct Message {
    const std::byte* data;  // the owner's; once the request is done, the copy
    std::size_t size;
    std::size_t acknowledged, written;
    PostedRequest* request;    // null once done
    std::byte* copy;           // its place in the replay buffer, filled chunk by chunk as they are written
    std::uint64_t replay_end;  // of what lies in the replay buffer up to this message
    bool finished;

    /// Whether its request is done once all is written; otherwise it is done once all has arrived.
    bool done_when_written() const noexcept { return copy != nullptr || size == 0; }
  };

  bool many_unacknowledged() const noexcept { return posted_ - oldest_ > kMessages / 2; }
  bool can_pull(const SendSide& side) const noexcept {
    return !side.lost_ && (next_ != posted_ || !side.again_.empty());
  }
  void pull(Stream& stream) noexcept;
  void add_chunk(SendSide& side, FrameHeader header) noexcept;
  void advance(SendSide& side, std::size_t written) noexcept;
  void note_pending(Stream& stream, bool completed) noexcept;
  void complete(Message& whole) noexcept;
  void chunk_arrived(std::uint64_t sequence, std::size_t length) noexcept;
  Message& message(std::uint64_t sequence) noexcept { return messages_[sequence % kMessages]; }

  SenderOptions options_;
  std::unique_ptr<Message[]> messages_;
  ReplayBuffer replay_;
  std::uint64_t oldest_ = 0, posted_ = 0;
  std::uint64_t next_ = 0;       // the message that the next chunk is cut from
  std::size_t next_offset_ = 0;  // offset in that message
  std::size_t again_ = 0;        // chunks to send again
  std::size_t unwritten_ =
      0;  // segments with payload that streams have taken on; and streams that are pending
  std::size_t waiting_ = 0, unresolved_ = 0;
  std::uint64_t bytes_ = 0, completed_ = 0, acknowledged_bytes_ = 0;
};

}  // namespace tombolo::transport::tcp
