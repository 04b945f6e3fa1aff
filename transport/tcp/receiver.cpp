#include "transport/tcp/receiver.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace tombolo::transport::tcp {
namespace {

// Takes eight 8 KiB messages with one read; a copy within the second-level cache costs less than a call.
constexpr std::size_t kStaging = 64 * 1024 + 8 * kHeaderBytes;
// After a chunk of this size the next one is probably large too: then only its header is read ahead, and its
// payload goes straight into the receive.
constexpr std::size_t kLarge = 32 * 1024;

}  // namespace

Receiver::Receiver(const std::vector<int>& sockets) : streams_(sockets.size()) {
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    streams_[i].socket = sockets[i];
    streams_[i].staging = std::make_unique<std::byte[]>(kStaging);
  }
}

void Receiver::set_fault(Fault fault, const FrameHeader& header) noexcept {
  if (fault_ != Fault::kNone) return;
  fault_ = fault;
  fault_header_ = header;
}

bool Receiver::post(PostedRequest* request) noexcept {
  window_.push(request);
  if (blocked_streams_ == 0) return false;
  for (Stream& stream : streams_) {
    if (stream.blocked) consume(stream);
  }
  return true;
}

/// False where the chunk has to wait for its receive, or is faulty.
bool Receiver::begin_chunk(Stream& stream) noexcept {
  const FrameHeader& header = stream.header;
  // One stream alone carries everything in order.
  if (streams_.size() == 1 && header.sequence != window_.oldest()) {
    set_fault(Fault::kMalformed, header);
    return false;
  }
  if (header.sequence >= window_.posted()) {
    if (!stream.blocked) ++blocked_streams_;
    stream.blocked = true;
    return false;
  }
  if (stream.blocked) --blocked_streams_;
  stream.blocked = false;
  PostedRequest* request = window_.find(header.sequence);
  // On one stream chunks come in order, so that a chunk cannot come twice on it.
  bool in_order = !stream.any || header.sequence > stream.last_sequence ||
                  (header.sequence == stream.last_sequence && header.offset > stream.last_offset);
  if (streams_.size() == 1 && request != nullptr) in_order = header.offset == request->claimed;
  if (request == nullptr || !in_order || (request->known && request->total != header.total) ||
      header.length > header.total - std::min<std::uint64_t>(request->claimed, header.total)) {
    set_fault(Fault::kMalformed, header);
    return false;
  }
  if (header.total > request->size) {
    fault_capacity_ = request->size;
    set_fault(Fault::kTooLarge, header);
    return false;
  }
  request->known = true;
  request->total = header.total;
  request->claimed += header.length;
  stream.any = true;
  stream.last_sequence = header.sequence;
  stream.last_offset = header.offset;
  stream.last_was_large = header.length >= kLarge;
  stream.request = request;
  stream.to = request->data + header.offset;
  stream.left = header.length;
  return true;
}

void Receiver::end_chunk(Stream& stream) noexcept {
  PostedRequest* request = stream.request;
  stream.request = nullptr;
  request->moved += stream.header.length;
  bytes_ += stream.header.length;
  if (request->moved == request->total) {
    request->state = PostedRequest::State::kDone;
    ++messages_;
    window_.finish(stream.header.sequence);
  }
}

/// Uses up what staging holds, as far as posted receives allow.
void Receiver::consume(Stream& stream) noexcept {
  while (fault_ == Fault::kNone) {
    if (stream.request != nullptr) {
      std::size_t count = std::min(stream.left, stream.end - stream.begin);
      if (count != 0) std::memcpy(stream.to, stream.staging.get() + stream.begin, count);
      stream.begin += count;
      stream.to += count;
      stream.left -= count;
      if (stream.left != 0) break;
      end_chunk(stream);
    } else if (stream.blocked) {
      if (!begin_chunk(stream)) break;
    } else {
      if (stream.end - stream.begin < kHeaderBytes) break;
      auto header =
          decode(std::span<const std::byte, kHeaderBytes>(stream.staging.get() + stream.begin, kHeaderBytes));
      stream.begin += kHeaderBytes;
      if (!header || stream.goodbye) {
        set_fault(Fault::kMalformed, header.value_or(FrameHeader{}));
      } else if (header->type == FrameType::kGoodbye) {
        stream.goodbye = true;
        if (header->reason != GoodbyeReason::kClosed) set_fault(Fault::kPeerFailed, *header);
      } else {
        stream.header = *header;
        if (!begin_chunk(stream)) break;
      }
    }
  }
  if (stream.begin == stream.end) stream.begin = stream.end = 0;
}

Receiver::Result Receiver::read(std::size_t index, std::size_t allowance) noexcept {
  Stream& stream = streams_[index];
  Result result;
  while (fault_ == Fault::kNone && wants_data(index) && allowance > 0) {
    std::array<iovec, 2> parts;
    std::size_t count = 0, wanted = 0, direct = 0;
    auto add = [&](std::byte* to, std::size_t length) {
      length = std::min(length, allowance - wanted);
      if (length == 0) return;
      parts[count++] = {to, length};
      wanted += length;
    };
    if (stream.request != nullptr) {
      // consume() has emptied staging into the chunk, so the rest of it comes straight from the socket.
      add(stream.to, stream.left);
      direct = wanted;
    } else if (stream.begin != 0) {
      std::memmove(stream.staging.get(), stream.staging.get() + stream.begin, stream.end - stream.begin);
      stream.end -= stream.begin;
      stream.begin = 0;
    }
    std::size_t ahead = stream.last_was_large ? kHeaderBytes : kStaging;
    add(stream.staging.get() + stream.end, ahead - stream.end);

    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    ssize_t got = recvmsg(stream.socket, &message, MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        result.drained = true;
      } else {
        result.error = errno;
        stream.ended = true;
      }
      break;
    }
    if (got == 0) {
      result.ended = stream.ended = true;
      break;
    }
    auto bytes = static_cast<std::size_t>(got);
    result.read += bytes;
    allowance -= bytes;
    std::size_t into_chunk = std::min(bytes, direct);
    stream.to += into_chunk;
    stream.left -= into_chunk;
    stream.end += bytes - into_chunk;
    consume(stream);
    if (bytes < wanted) {
      result.drained = true;
      break;
    }
  }
  return result;
}

}  // namespace tombolo::transport::tcp
