// The sending half of a connection: posted messages are cut in chunks, which the streams pull when they have
// room. Knows sockets only by number; the connection owns them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/request_pool.h"
#include "transport/tcp/wire.h"

namespace tombolo::transport::tcp {

class Sender {
 public:
  /// `chunk`: most payload bytes per chunk. `backlog`: bytes that a stream takes on before it has written
  /// them.
  Sender(const std::vector<int>& sockets, std::size_t chunk, std::size_t backlog);

  bool can_post() const noexcept { return !window_.full(); }
  void post(PostedRequest* request) noexcept { window_.push(request); }
  /// True while a posted message is not fully handed to the kernel.
  bool pending() const noexcept { return !window_.empty(); }

  struct Result {
    std::size_t written = 0;  ///< bytes, with headers
    bool blocked = false;     ///< the socket has no room
    int error = 0;            ///< errno of a failed write
  };
  /// Writes to one stream until there is nothing to write, the socket is full, or `allowance` bytes are gone.
  Result flush(std::size_t stream, std::size_t allowance) noexcept;

  /// True where the stream has written part of a frame only, so that nothing else may follow.
  bool mid_frame(std::size_t stream) const noexcept { return streams_[stream].written_of_first != 0; }

  /// Sequence number of the oldest unfinished message.
  std::uint64_t oldest() const noexcept { return window_.oldest(); }
  const PostedRequest* oldest_request() noexcept { return window_.find(window_.oldest()); }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t messages() const noexcept { return messages_; }

 private:
  struct Segment {
    HeaderBytes header;
    const std::byte* data = nullptr;
    std::size_t length = 0;
    std::uint64_t sequence = 0;
  };
  // Two iovecs per segment. Beyond 32 messages per call more batching brings nothing measurable.
  static constexpr std::size_t kSegments = 32;
  struct Stream {
    int socket = -1;
    std::array<Segment, kSegments> segments;
    std::size_t begin = 0, end = 0;    // counts; the ring's index is the count modulo kSegments
    std::size_t queued = 0;            // payload bytes of all segments
    std::size_t written_of_first = 0;  // bytes of the first segment's header and payload
  };

  void pull(Stream& stream) noexcept;
  void advance(Stream& stream, std::size_t written) noexcept;

  std::vector<Stream> streams_;
  std::size_t chunk_, backlog_;
  Window window_;
  std::uint64_t next_ = 0;       // the message that the next chunk is cut from
  std::size_t next_offset_ = 0;  // where in it
  std::uint64_t bytes_ = 0, messages_ = 0;
};

}  // namespace tombolo::transport::tcp
