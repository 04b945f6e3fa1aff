// The receiving half of a connection: what its streams share. It reads the streams and puts chunks where they
// belong. Nothing that comes from the wire is used before it was checked against the posted receives. What
// was read of a stream is the stream's own (receive_side.h). Used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/request_pool.h"
#include "transport/tcp/stream/stream.h"
#include "transport/tcp/stream/wire.h"

namespace tombolo::transport::tcp {

class Receiver {
 public:
  /// Summaries kept until the connection takes them: an honest peer sends one per stream and epoch.
  static constexpr std::size_t kMostEpochSummaries = std::size_t{8} * kMostStreams;

  explicit Receiver(Overlong overlong = Overlong::kError);

  /// The stream broke and is read no more; a partly received chunk does not count.
  void lose(Stream& stream) noexcept;
  /// So many streams are live. Each acknowledges its share of what may come before an acknowledgement is due.
  void share_among(std::size_t streams) noexcept;

  bool can_post() const noexcept { return !window_.full(); }
  /// Posts a receive. Chunks that streams hold back are placed by go_on().
  void post(PostedRequest* request) { window_.push(request); }
  /// Whether some stream holds a chunk back.
  bool holds_back() const noexcept { return held_back_ != 0; }
  /// Places what the stream holds back, as far as receives are posted.
  void go_on(Stream& stream);
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
  Result read(Stream& stream, std::size_t allowance);

  /// Reads at most `allowance` bytes on a stream whose next chunk waits for a receive to be posted, and keeps
  /// what comes, up to ReceiveSide::kMostAhead: acknowledgements may lie behind that chunk, and the owner may
  /// post the receive only after one has come.
  Result read_ahead(Stream& stream, std::size_t allowance);

  /// Reads what has come on the stream and is not read yet, as far as receives are posted: for a stream that
  /// breaks. What comes while this reads is left, since a peer could go on sending for ever. Returns the
  /// bytes.
  std::size_t read_rest(Stream& stream);
  /// The same behind a chunk that waits for its receive. True where that includes the peer's goodbye or the
  /// stream's orderly end: the peer closed after it had sent everything, which is still to be delivered.
  bool rest_reaches_the_end(Stream& stream);

  /// What was wrong with the peer's bytes, or with the sizes of a message; kNone while nothing was.
  enum class Fault { kNone, kMalformed, kTooLarge, kPeerFailed };
  /// The errno of a read whose frame was damaged on the way. Where go_on() found the damage out, no later
  /// read may report it, but ReceiveSide::damaged() does.
  static constexpr int kDamaged = 74;  // EBADMSG
  Fault fault() const noexcept { return fault_; }
  /// The header that caused the fault. For kTooLarge, `capacity` is the receive's size.
  const FrameHeader& fault_header() const noexcept { return fault_header_; }
  std::size_t fault_capacity() const noexcept { return fault_capacity_; }

  /// Whether an acknowledgement is due on the stream: the peer's sender waits for it, or much has come since
  /// the last.
  bool ack_due(const Stream& stream) const noexcept { return stream.receive.ack_.due(asked_); }

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

 private:
  using PeerEnd = ReceiveSide::PeerEnd;
  void enter(ReceiveSide& side, ReceiveSide::State state) noexcept;
  void consume(ReceiveSide& side);
  bool begin_chunk(ReceiveSide& side) noexcept;
  void end_chunk(ReceiveSide& side) noexcept;
  std::byte* place_of(ReceiveSide& side, const PostedRequest& request) noexcept;
  void take_frame(ReceiveSide& side, const FrameHeader& header);
  void scan(ReceiveSide& side);
  Result hold(Stream& stream, std::size_t most, std::size_t allowance);
  void set_fault(Fault fault, const FrameHeader& header) noexcept;

  Overlong overlong_;
  std::vector<EpochSummary> epoch_summaries_;
  Window window_;
  std::size_t held_back_ = 0;   // streams that hold a chunk back
  std::size_t tell_after_ = 0;  // bytes of one stream
  /// How often the peer's sender has asked for what was not acknowledged yet, on whatever stream.
  std::uint64_t asked_ = 0;
  Fault fault_ = Fault::kNone;
  FrameHeader fault_header_;
  std::size_t fault_capacity_ = 0;
  std::uint64_t bytes_ = 0, messages_ = 0;
};

}  // namespace tombolo::transport::tcp
