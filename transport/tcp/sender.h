// The sending half of a connection. It cuts posted messages into chunks, which each stream takes on when it
// has room, and keeps the chunks until the peer has acknowledged them. Sockets and TLS sessions belong to the
// connection. Used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/request_pool.h"
#include "transport/sockets/stream_io.h"
#include "transport/tcp/replay_buffer.h"
#include "transport/tcp/wire.h"

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

  /// From now on stream `index` (at most one above all before) carries chunks, in an epoch of its own.
  void join(std::size_t index, const sockets::StreamIo& io);
  /// The stream broke, in that epoch, and carries nothing more. What was not acknowledged on it is kept until
  /// resolve_epoch().
  void lose(std::size_t index, std::uint32_t epoch);
  /// The peer took `count` chunks in each of these epochs; the others are sent again, once the stream is
  /// joined. False where the count is higher than what was sent.
  bool resolve_epoch(std::size_t index, std::uint32_t first_epoch, std::uint32_t last_epoch,
                     std::uint32_t count);
  /// The peer has taken `count` chunks (modulo 2^32) from the stream in this epoch. False where the count is
  /// higher than what was sent.
  bool acknowledge(std::size_t index, std::uint32_t count) noexcept;
  /// Puts a frame without payload on the stream, before what it has not begun to write. False where there is
  /// no room.
  bool say(std::size_t index, const FrameHeader& header) noexcept;
  /// Whether flush() would take on another chunk, whose header then carries the acknowledgement.
  bool takes_more(std::size_t index) const noexcept {
    const Stream& stream = streams_[index];
    return can_pull(stream) && has_room(stream) && !stream.pending;
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
  /// Writes to one stream until there is nothing to write, the socket is full, or `allowance` bytes are used
  /// up. `ack` is the count of chunks received on that stream so far; the headers of what is taken on now
  /// carry it.
  Result flush(std::size_t index, std::size_t allowance, std::uint32_t ack) noexcept;

  /// True where the stream has something to write.
  bool has_work(std::size_t index) const noexcept {
    const Stream& stream = streams_[index];
    return stream.live() && (stream.written != stream.end || stream.pending || can_pull(stream));
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

  /// Whether a message whose request is done has to be sent again, or may have to be.
  bool owes() const noexcept;

  /// Messages of any size are copied, up to so many bytes in all. For long paths, where a request that waits
  /// for its acknowledgement costs a round trip. Only before the first message is posted.
  void copy_everything(std::size_t replay_bytes) noexcept;

  /// Whether the stream has written only part of a frame, so that only the rest of it may follow.
  bool mid_frame(std::size_t index) const noexcept { return streams_[index].written_of_first != 0; }

  /// What may still be written to the stream at the connection's end: the rest of a frame that is begun, and
  /// the frames without payload behind it, up to the first chunk. Nothing where a chunk is begun.
  std::vector<std::byte> last_words(std::size_t index) const;
  /// Whether the stream has written only part of a chunk.
  bool mid_chunk(std::size_t index) const noexcept {
    const Stream& stream = streams_[index];
    return stream.written_of_first != 0 && stream.segments[stream.written % kSegments].chunk;
  }

  /// Sequence number of the oldest unacknowledged message, and its size.
  std::uint64_t oldest() const noexcept { return oldest_; }
  std::size_t oldest_size() const noexcept { return messages_[oldest_ % kMessages].size; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t messages() const noexcept { return completed_; }
  std::uint64_t acknowledged_bytes() const noexcept { return acknowledged_bytes_; }
  std::uint64_t chunks(std::size_t index) const noexcept { return streams_[index].chunks; }
  std::uint64_t replayed(std::size_t index) const noexcept { return streams_[index].replayed; }

 private:
  // Small messages are acknowledged in batches, so more of them are under way than there are requests.
  static constexpr std::size_t kMessages = 2048;
  // The most chunks of a stream that are under way at once, and room for frames without payload.
  static constexpr std::size_t kChunks = 1024, kSegments = 2 * kChunks;
  // Segments per write, of two iovecs each. More than 32 messages per call gain nothing measurable.
  static constexpr std::size_t kBatch = 32;

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
  struct Segment {
    HeaderBytes header;
    const std::byte* data;
    std::uint64_t sequence;
    std::uint32_t length;
    bool chunk;
  };
  struct Stream {
    sockets::StreamIo io{-1};
    bool live() const noexcept { return io.socket >= 0; }
    bool open = false;  // an earlier epoch is not resolved
    // TLS took bytes that the socket has not taken yet, up to byte `owed`; they belong to messages that are
    // done.
    bool pending = false;
    std::uint64_t owed = 0;
    std::unique_ptr<Segment[]> segments;
    // Running counts; an index in the ring is the count modulo kSegments. Segments before `written` wait for
    // their acknowledgement.
    std::size_t begin = 0, written = 0, end = 0;
    std::size_t queued = 0;            // payload bytes not yet written
    std::size_t written_of_first = 0;  // bytes of the segment at `written`
    std::uint32_t acknowledged = 0;    // chunks of this epoch
    std::uint64_t chunks = 0, replayed = 0;
    // Chunks to send again, last first. They are sent on this very stream: on another, one could lie behind a
    // newer chunk whose receive the peer posts only after it has received this one.
    std::vector<FrameHeader> again;
    std::vector<FrameHeader> lost;  // chunks of the epoch `lost_epoch`
    std::uint32_t lost_epoch = 0, lost_acknowledged = 0;
  };

  bool many_unacknowledged() const noexcept { return posted_ - oldest_ > kMessages / 2; }
  bool can_pull(const Stream& stream) const noexcept {
    return !stream.open && (next_ != posted_ || !stream.again.empty());
  }
  void pull(Stream& stream, std::uint32_t ack) noexcept;
  void add_chunk(Stream& stream, FrameHeader header) noexcept;
  void advance(Stream& stream, std::size_t written) noexcept;
  void note_pending(Stream& stream, bool completed) noexcept;
  bool has_room(const Stream& stream) const noexcept {
    return stream.end - stream.written < kBatch && stream.end - stream.begin < kChunks &&
           stream.queued < options_.backlog;
  }
  void complete(Message& whole) noexcept;
  void chunk_arrived(std::uint64_t sequence, std::size_t length) noexcept;
  Message& message(std::uint64_t sequence) noexcept { return messages_[sequence % kMessages]; }

  SenderOptions options_;
  std::vector<Stream> streams_;
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
