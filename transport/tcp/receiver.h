// The receiving half of a connection: reads the streams and puts chunks where they belong. Nothing that comes
// from the wire is used before it was checked against the posted receives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/request_pool.h"
#include "transport/tcp/wire.h"

namespace tombolo::transport::tcp {

class Receiver {
 public:
  explicit Receiver(const std::vector<int>& sockets);

  bool can_post() const noexcept { return !window_.full(); }
  /// Also delivers what streams hold back for want of this receive. True if bytes were delivered.
  bool post(PostedRequest* request) noexcept;
  /// True while a posted receive is not complete.
  bool pending() const noexcept { return !window_.empty(); }

  struct Result {
    std::size_t read = 0;  ///< bytes, with headers
    bool drained = false;  ///< the socket had no more
    bool ended = false;    ///< the peer will send no more on this stream
    int error = 0;         ///< errno of a failed read
  };
  /// Reads one stream until it is drained, waits for a receive to be posted, or `allowance` bytes are gone.
  Result read(std::size_t stream, std::size_t allowance) noexcept;

  /// True where the stream's next bytes can be used: no chunk on it waits for a receive to be posted.
  bool wants_data(std::size_t stream) const noexcept {
    return !streams_[stream].blocked && !streams_[stream].ended;
  }
  bool ended(std::size_t stream) const noexcept { return streams_[stream].ended; }
  /// The peer said goodbye on it.
  bool said_goodbye(std::size_t stream) const noexcept { return streams_[stream].goodbye; }

  /// What was wrong with the peer's bytes, or with the sizes of a message; kNone while all is well.
  enum class Fault { kNone, kMalformed, kTooLarge, kPeerFailed };
  Fault fault() const noexcept { return fault_; }
  /// The header that caused it. For kTooLarge, `capacity` is the receive's size.
  const FrameHeader& fault_header() const noexcept { return fault_header_; }
  std::size_t fault_capacity() const noexcept { return fault_capacity_; }

  std::uint64_t oldest() const noexcept { return window_.oldest(); }
  const PostedRequest* oldest_request() noexcept { return window_.find(window_.oldest()); }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t messages() const noexcept { return messages_; }

 private:
  struct Stream {
    int socket = -1;
    std::unique_ptr<std::byte[]> staging;
    std::size_t begin = 0, end = 0;  // of what staging holds
    FrameHeader header;              // of the chunk under way or held back
    PostedRequest* request = nullptr;
    std::byte* to = nullptr;  // where the chunk's next byte goes
    std::size_t left = 0;     // of the chunk
    bool blocked = false;     // header waits for its receive to be posted
    bool ended = false, goodbye = false;
    bool any = false;                 // a chunk came before
    std::uint64_t last_sequence = 0;  // of it
    std::uint64_t last_offset = 0;    // likewise
    bool last_was_large = false;      // likewise
  };

  void consume(Stream& stream) noexcept;
  bool begin_chunk(Stream& stream) noexcept;
  void end_chunk(Stream& stream) noexcept;
  void set_fault(Fault fault, const FrameHeader& header) noexcept;

  std::vector<Stream> streams_;
  Window window_;
  std::size_t blocked_streams_ = 0;
  Fault fault_ = Fault::kNone;
  FrameHeader fault_header_;
  std::size_t fault_capacity_ = 0;
  std::uint64_t bytes_ = 0, messages_ = 0;
};

}  // namespace tombolo::transport::tcp
