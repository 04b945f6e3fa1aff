#include "transport/tcp/sender.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace tombolo::transport::tcp {

Sender::Sender(const std::vector<int>& sockets, std::size_t chunk, std::size_t backlog)
    : streams_(sockets.size()), chunk_(std::min(chunk, kLongestChunk)), backlog_(backlog) {
  for (std::size_t i = 0; i < sockets.size(); ++i) streams_[i].socket = sockets[i];
}

void Sender::pull(Stream& stream) noexcept {
  while (next_ < window_.posted() && stream.end - stream.begin < kSegments && stream.queued < backlog_) {
    PostedRequest* request = window_.find(next_);
    Segment& segment = stream.segments[stream.end % kSegments];
    segment.length = std::min(chunk_, request->size - next_offset_);
    segment.data = request->data + next_offset_;
    segment.sequence = next_;
    FrameHeader header;
    header.length = static_cast<std::uint32_t>(segment.length);
    header.sequence = next_;
    header.total = request->size;
    header.offset = next_offset_;
    encode(header, segment.header);
    ++stream.end;
    stream.queued += segment.length;
    next_offset_ += segment.length;
    if (next_offset_ == request->size) {
      ++next_;
      next_offset_ = 0;
    }
  }
}

void Sender::advance(Stream& stream, std::size_t written) noexcept {
  stream.written_of_first += written;
  while (stream.begin != stream.end) {
    Segment& segment = stream.segments[stream.begin % kSegments];
    std::size_t size = kHeaderBytes + segment.length;
    if (stream.written_of_first < size) return;
    stream.written_of_first -= size;
    stream.queued -= segment.length;
    ++stream.begin;
    PostedRequest* request = window_.find(segment.sequence);
    request->moved += segment.length;
    bytes_ += segment.length;
    if (request->moved == request->size) {
      request->state = PostedRequest::State::kDone;
      ++messages_;
      window_.finish(segment.sequence);
    }
  }
}

Sender::Result Sender::flush(std::size_t index, std::size_t allowance) noexcept {
  Stream& stream = streams_[index];
  Result result;
  std::array<iovec, 2 * kSegments> parts;
  while (allowance > 0) {
    pull(stream);
    if (stream.begin == stream.end) break;
    std::size_t count = 0, wanted = 0, skip = stream.written_of_first;
    auto add = [&](const std::byte* data, std::size_t length) {
      std::size_t skipped = std::min(skip, length);
      skip -= skipped;
      length = std::min(length - skipped, allowance - wanted);
      if (length == 0) return;
      parts[count++] = {const_cast<std::byte*>(data + skipped), length};
      wanted += length;
    };
    for (std::size_t i = stream.begin; i != stream.end; ++i) {
      const Segment& segment = stream.segments[i % kSegments];
      add(segment.header.data(), kHeaderBytes);
      add(segment.data, segment.length);
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    ssize_t sent = sendmsg(stream.socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        result.blocked = true;
      } else {
        result.error = errno;
      }
      break;
    }
    auto written = static_cast<std::size_t>(sent);
    advance(stream, written);
    result.written += written;
    allowance -= written;
    if (written < wanted) {
      result.blocked = true;
      break;
    }
  }
  return result;
}

}  // namespace tombolo::transport::tcp
