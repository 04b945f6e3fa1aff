// The receiving half of a connection: reads the streams and puts chunks where they belong. Nothing that comes
// from the wire is used before it was checked against the posted receives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/request_pool.h"
#include "transport/sockets/stream_io.h"
#include "transport/tcp/wire.h"

namespace tombolo::transport::tcp {

class Receiver {
 public:
  Receiver();

  /// From now on stream `index` (at most one above all before) is read, in an epoch of its own.
  void join(std::size_t index, const sockets::StreamIo& io);
  /// The stream broke and is read no more; a partly received chunk does not count. Returns how many whole
  /// chunks it brought in its epoch.
  std::uint32_t lose(std::size_t index) noexcept;

  /// The bound of reading ahead: what two kernels buffer at most by default, and one chunk of this build's.
  static constexpr std::size_t kMostAhead = 16 * 1024 * 1024;

  bool can_post() const noexcept { return !window_.full(); }
  /// Posts a receive, and delivers to it what streams have held back. True if bytes were delivered.
  bool post(PostedRequest* request);
  /// True while a posted receive is not complete.
  bool pending() const noexcept { return !window_.empty(); }

  struct Result {
    std::size_t read = 0;  ///< bytes, with headers
    std::size_t idle = 0;  ///< of these, pings, which only show that the peer waits
    bool drained = false;  ///< the socket had no more
    bool ended = false;    ///< the peer will send no more on this stream
    int error = 0;         ///< errno of a failed read
  };
  /// Reads one stream until it is drained, blocks on a receive that is not posted, or has used up `allowance`
  /// bytes.
  Result read(std::size_t stream, std::size_t allowance);

  /// Reads on a stream whose next chunk waits for a receive to be posted, and keeps what comes, up to a
  /// bound: acknowledgements may lie behind that chunk, and the owner may post the receive only after one has
  /// come.
  Result read_ahead(std::size_t stream, std::size_t most = kMostAhead);
  /// Whether read_ahead() would read.
  bool may_read_ahead(std::size_t index) const noexcept {
    const Stream& stream = streams_[index];
    return stream.blocked && !stream.ended && stream.behind == Behind::kUnknown && stream.end < kMostAhead;
  }
  /// Whether the stream's end is known to lie behind a chunk that waits for its receive to be posted: it
  /// brings nothing new any more.
  bool ends_behind_a_chunk(std::size_t index) const noexcept {
    return streams_[index].blocked && streams_[index].behind != Behind::kUnknown;
  }

  /// True where the stream's next bytes can be used: no chunk on it waits for a receive to be posted.
  bool wants_data(std::size_t stream) const noexcept {
    return !streams_[stream].blocked && !streams_[stream].ended;
  }
  bool ended(std::size_t stream) const noexcept { return streams_[stream].ended; }
  /// Reads everything that the kernel holds behind a chunk that waits for its receive. True where that
  /// includes the peer's goodbye or the stream's orderly end: the peer closed after it had sent everything,
  /// which is still to be delivered.
  bool rest_reaches_the_end(std::size_t stream);
  /// The peer said goodbye on the stream, which may be known before the chunks in front of it are delivered.
  bool said_goodbye(std::size_t stream) const noexcept {
    return streams_[stream].goodbye || streams_[stream].behind == Behind::kGoodbye;
  }

  /// What was wrong with the peer's bytes, or with the sizes of a message; kNone while nothing was.
  enum class Fault { kNone, kMalformed, kTooLarge, kPeerFailed };
  /// The errno of a read whose frame was damaged on the way.
  static constexpr int kDamaged = 74;  // EBADMSG
  /// Whether a frame on the stream was damaged, which makes the stream useless. Where post() found that out,
  /// no later read() may report it.
  bool damaged(std::size_t stream) const noexcept { return streams_[stream].damaged; }
  Fault fault() const noexcept { return fault_; }
  /// The header that caused the fault. For kTooLarge, `capacity` is the receive's size.
  const FrameHeader& fault_header() const noexcept { return fault_header_; }
  std::size_t fault_capacity() const noexcept { return fault_capacity_; }

  /// Whole chunks received on the stream in its epoch.
  std::uint32_t count(std::size_t index) const noexcept { return streams_[index].count; }
  /// To be called when this end has nothing else to do: acknowledgements for which the peer does not wait yet
  /// may go out now.
  void idle() noexcept {
    for (Stream& stream : streams_) stream.ack_due |= stream.untold_bytes >= kTellWhenIdle;
  }
  /// Whether an acknowledgement is due: the peer's sender waits for it, or much has come since the last.
  bool ack_due(std::size_t index) const noexcept { return streams_[index].ack_due; }
  /// To be called when the acknowledgement was sent.
  void told(std::size_t index) noexcept {
    Stream& stream = streams_[index];
    stream.ack_due = false;
    stream.untold_bytes = stream.untold_chunks = 0;
  }
  /// The latest acknowledgement that came on the stream in its epoch.
  std::uint32_t peer_ack(std::size_t index) const noexcept { return streams_[index].peer_ack; }

  /// A summary of a broken stream's epochs, as the peer sent it. The owner takes them after each read.
  struct EpochSummary {
    std::size_t stream = 0;
    std::uint32_t first_epoch = 0, last_epoch = 0;
    std::uint32_t count = 0;  ///< chunks in each
    friend bool operator==(const EpochSummary&, const EpochSummary&) = default;
  };
  std::vector<EpochSummary>& epoch_summaries() noexcept { return epoch_summaries_; }

  std::uint64_t oldest() const noexcept { return window_.oldest(); }
  const PostedRequest* oldest_request() noexcept { return window_.find(window_.oldest()); }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t messages() const noexcept { return messages_; }
  /// How many whole chunks were received on the stream.
  std::uint64_t chunks(std::size_t index) const noexcept { return streams_[index].chunks; }

 private:
  /// What is known to be the last behind the chunk that waits.
  enum class Behind : std::uint8_t { kUnknown, kGoodbye, kOrderlyEnd };
  struct Stream {
    sockets::StreamIo io{-1};
    std::unique_ptr<std::byte[]> staging;
    std::size_t capacity = 0;
    std::size_t begin = 0, end = 0;  // of what staging holds
    std::size_t scanned = 0;         // where the next header to scan lies while blocked; else below begin
    FrameHeader header;              // of the chunk under way or held back
    PostedRequest* request = nullptr;
    std::byte* to = nullptr;  // where the chunk's next byte goes
    std::size_t left = 0;     // of the chunk
    bool blocked = false;     // header waits for its receive to be posted
    bool ended = false, goodbye = false;
    Behind behind = Behind::kUnknown;
    bool any = false;                 // a chunk has come that was no replay
    std::uint64_t last_sequence = 0;  // of the last such chunk
    std::uint64_t last_offset = 0;    // of the last such chunk
    bool last_was_large = false;      // the last chunk
    bool damaged = false;             // the last frame
    std::uint32_t count = 0;          // whole chunks in this epoch
    std::uint32_t peer_ack = 0;
    std::size_t pings = 0;
    bool ack_due = false;
    std::size_t untold_bytes = 0, untold_chunks = 0;
    std::uint64_t chunks = 0;

    void move_to_front() noexcept;  // what staging holds
  };

  void consume(Stream& stream);
  bool begin_chunk(Stream& stream) noexcept;
  void end_chunk(Stream& stream) noexcept;
  void set_fault(Fault fault, const FrameHeader& header) noexcept;

  // Sending and handling a frame without payload costs as much as a small message.
  static constexpr std::size_t kTellWhenIdle = 128 * 1024;

  void take_frame(Stream& stream, const FrameHeader& header);
  static void take_ack(Stream& stream, std::uint32_t ack) noexcept;
  void scan(Stream& stream);

  std::vector<Stream> streams_;
  std::vector<EpochSummary> epoch_summaries_;
  Window window_;
  std::size_t blocked_streams_ = 0;
  Fault fault_ = Fault::kNone;
  FrameHeader fault_header_;
  std::size_t fault_capacity_ = 0;
  std::uint64_t bytes_ = 0, messages_ = 0;
};

}  // namespace tombolo::transport::tcp
