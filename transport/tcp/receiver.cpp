#include "transport/tcp/receiver.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/crc32c.h"

namespace tombolo::transport::tcp {
namespace {

// The staging buffer takes eight 8 KiB messages with one read; copying them within the second-level cache
// costs less than more calls.
constexpr std::size_t kStaging = 64 * 1024 + 8 * kHeaderBytes;
// After a chunk of this size the next one is probably large too. Then only its header is read ahead, and its
// payload goes straight into the receive.
constexpr std::size_t kLarge = 32 * 1024;

// Acknowledgements for which the sender does not wait are sent after so many bytes: well before the sender's
// replay buffer, which all streams share, and its list of chunks are full. Each stream is acknowledged after
// its share of these bytes, but not after fewer than the least.
constexpr std::size_t kTellAfterBytes = 192 * 1024, kTellAfterLeast = 64 * 1024;
constexpr std::size_t kTellAfterChunks = 128;
// Summaries kept until the connection takes them: an honest peer sends one per stream and epoch.
constexpr std::size_t kMostEpochSummaries = 8 * kMostStreams;

}  // namespace

Receiver::Receiver() {
  epoch_summaries_.reserve(kMostEpochSummaries);
}

void Receiver::join(std::size_t index, const sockets::StreamIo& io) {
  if (index >= streams_.size()) streams_.resize(index + 1);
  Stream& old = streams_[index];
  Stream fresh;
  fresh.io = io;
  // The memory is not touched before it is needed, so that an idle connection's stays unused.
  fresh.staging = std::make_unique_for_overwrite<std::byte[]>(kStaging);
  fresh.capacity = kStaging;
  fresh.chunks = old.chunks;
  old = std::move(fresh);
}

std::uint32_t Receiver::lose(std::size_t index) noexcept {
  Stream& stream = streams_[index];
  if (stream.request != nullptr) stream.request->claimed -= stream.header.length;
  stream.request = nullptr;
  if (stream.blocked) --blocked_streams_;
  stream.blocked = false;
  stream.ended = true;
  stream.io = {-1};
  stream.begin = stream.end = 0;
  return stream.count;
}

void Receiver::Stream::move_to_front() noexcept {
  if (begin == 0) return;
  std::memmove(staging.get(), staging.get() + begin, end - begin);
  end -= begin;
  scanned -= std::min(scanned, begin);
  begin = 0;
}

void Receiver::set_fault(Fault fault, const FrameHeader& header) noexcept {
  if (fault_ != Fault::kNone) return;
  fault_ = fault;
  fault_header_ = header;
}

bool Receiver::post(PostedRequest* request) {
  window_.push(request);
  if (blocked_streams_ == 0) return false;
  for (Stream& stream : streams_) {
    if (stream.blocked) consume(stream);
  }
  return true;
}

/// Starts to place a chunk. False where it has to wait for its receive, or is faulty.
bool Receiver::begin_chunk(Stream& stream) noexcept {
  const FrameHeader& header = stream.header;
  if (header.sequence >= window_.posted()) {
    if (!stream.blocked) ++blocked_streams_;
    stream.blocked = true;
    return false;
  }
  if (stream.blocked) --blocked_streams_;
  stream.blocked = false;
  PostedRequest* request = window_.find(header.sequence);
  // On one stream chunks come in order, so that only one that is sent again can come twice.
  const bool replayed = (header.flags & kReplayFlag) != 0;
  bool in_order = replayed || !stream.any || header.sequence > stream.last_sequence ||
                  (header.sequence == stream.last_sequence && header.offset > stream.last_offset);
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
  if (!replayed) {
    stream.any = true;
    stream.last_sequence = header.sequence;
    stream.last_offset = header.offset;
  }
  stream.last_was_large = header.length >= kLarge;
  stream.request = request;
  stream.to = request->data + header.offset;
  stream.left = header.length;
  return true;
}

void Receiver::end_chunk(Stream& stream) noexcept {
  PostedRequest* request = stream.request;
  const FrameHeader& header = stream.header;
  if ((header.flags & kChecksumFlag) != 0 &&
      crc32c({request->data + header.offset, header.length}) != header.checksum) {
    stream.damaged = true;
    return;
  }
  stream.request = nullptr;
  ++stream.count;
  ++stream.chunks;
  stream.untold_bytes += header.length;
  ++stream.untold_chunks;
  const std::size_t much = std::max(kTellAfterBytes / streams_.size(), kTellAfterLeast);
  if (stream.untold_bytes >= much || stream.untold_chunks >= kTellAfterChunks) stream.ack_due = true;
  request->moved += header.length;
  bytes_ += header.length;
  if (request->moved == request->total) {
    request->state = PostedRequest::State::kDone;
    ++messages_;
    window_.finish(stream.header.sequence);
    // The message's sender waits until it knows that every chunk has arrived, on whatever stream.
    if ((header.flags & kUrgentFlag) != 0)
      for (Stream& each : streams_) each.ack_due |= each.untold_chunks != 0;
  }
}

void Receiver::take_ack(Stream& stream, std::uint32_t ack) noexcept {
  // A frame that was scanned ahead comes here a second time.
  if (static_cast<std::int32_t>(ack - stream.peer_ack) > 0) stream.peer_ack = ack;
}

void Receiver::take_frame(Stream& stream, const FrameHeader& header) {
  if (header.type != FrameType::kGoodbye) take_ack(stream, header.ack);
  switch (header.type) {
    case FrameType::kAck:
      return;
    case FrameType::kEpochSummary: {
      const EpochSummary said{
          static_cast<std::size_t>(header.offset), static_cast<std::uint32_t>(header.total >> 32),
          static_cast<std::uint32_t>(header.total), static_cast<std::uint32_t>(header.sequence)};
      // The peer sends it on each stream, and again when another breaks.
      if (std::ranges::find(epoch_summaries_, said) != epoch_summaries_.end()) return;
      if (epoch_summaries_.size() == kMostEpochSummaries) return set_fault(Fault::kMalformed, header);
      epoch_summaries_.push_back(said);
      return;
    }
    case FrameType::kGoodbye:
      stream.goodbye = true;
      if (header.reason != GoodbyeReason::kClosed) set_fault(Fault::kPeerFailed, header);
      return;
    default:  // kPing has no content
      ++stream.pings;
      return;
  }
}

/// Handles the frames that staging holds, as far as posted receives allow.
void Receiver::consume(Stream& stream) {
  while (fault_ == Fault::kNone && !stream.damaged) {
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
      const std::span<const std::byte, kHeaderBytes> bytes(stream.staging.get() + stream.begin, kHeaderBytes);
      if (!intact(bytes)) {
        stream.damaged = true;
        break;
      }
      auto header = decode(bytes);
      stream.begin += kHeaderBytes;
      if (!header || stream.goodbye) {
        set_fault(Fault::kMalformed, header.value_or(FrameHeader{}));
      } else if (header->type == FrameType::kChunk) {
        take_ack(stream, header->ack);
        stream.header = *header;
        if (!begin_chunk(stream)) {
          // Part of what follows the blocked chunk is in staging already, and no later read may come to scan
          // it.
          stream.scanned = std::max(stream.scanned, stream.begin + header->length);
          scan(stream);
          break;
        }
      } else {
        take_frame(stream, *header);
      }
    }
  }
  if (stream.begin != stream.end) return;
  stream.move_to_front();
  if (!stream.blocked) stream.scanned = 0;  // the rest of a chunk does not come through staging
  if (stream.capacity == kStaging) return;
  stream.staging = std::make_unique_for_overwrite<std::byte[]>(kStaging);
  stream.capacity = kStaging;
}

/// Scans the frames behind the one that waits for acknowledgements and epoch summaries. Behind a damaged
/// header nothing more can be read, and the receive that the first frame waits for may depend on a summary
/// there; so such a stream is useless at once. Any other fault is found when the frame's turn comes.
void Receiver::scan(Stream& stream) {
  while (stream.scanned + kHeaderBytes <= stream.end) {
    const std::span<const std::byte, kHeaderBytes> bytes(stream.staging.get() + stream.scanned, kHeaderBytes);
    if (!intact(bytes)) {
      stream.damaged = true;
      return;
    }
    auto header = decode(bytes);
    if (header && header->type == FrameType::kGoodbye && header->reason == GoodbyeReason::kClosed)
      stream.behind = Behind::kGoodbye;
    if (!header || header->type == FrameType::kGoodbye) return;
    if (header->type == FrameType::kEpochSummary) take_frame(stream, *header);
    take_ack(stream, header->ack);
    stream.scanned += kHeaderBytes + header->length;
  }
}

bool Receiver::rest_reaches_the_end(std::size_t index) {
  read_ahead(index, SIZE_MAX);
  return ends_behind_a_chunk(index);
}

Receiver::Result Receiver::read_ahead(std::size_t index, std::size_t most) {
  Stream& stream = streams_[index];
  Result result;
  if (stream.damaged) result.error = kDamaged;
  while (stream.blocked && !stream.damaged && stream.end < most) {
    stream.move_to_front();
    if (stream.end == stream.capacity) {
      auto larger = std::make_unique_for_overwrite<std::byte[]>(2 * stream.capacity);
      std::memcpy(larger.get(), stream.staging.get(), stream.end);
      stream.staging = std::move(larger);
      stream.capacity *= 2;
    }
    iovec room{stream.staging.get() + stream.end, stream.capacity - stream.end};
    ssize_t got = stream.io.read({&room, 1});
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      // An orderly end is handled when its turn comes, and so is what a socket does behind a goodbye. Another
      // error is told at once, because the kernel tells it once.
      result.drained = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
      if (got < 0 && !result.drained && stream.behind == Behind::kUnknown) result.error = errno;
      if (got == 0 && stream.behind == Behind::kUnknown) stream.behind = Behind::kOrderlyEnd;
      return result;
    }
    stream.end += static_cast<std::size_t>(got);
    result.read += static_cast<std::size_t>(got);
    scan(stream);
    if (stream.damaged) result.error = kDamaged;
  }
  return result;
}

Receiver::Result Receiver::read(std::size_t index, std::size_t allowance) {
  Stream& stream = streams_[index];
  Result result;
  const std::size_t pings = stream.pings;
  if (stream.damaged) result.error = kDamaged;
  while (fault_ == Fault::kNone && result.error == 0 && wants_data(index) && allowance > 0) {
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
    } else {
      stream.move_to_front();
    }
    std::size_t ahead = stream.last_was_large ? kHeaderBytes : kStaging;
    add(stream.staging.get() + stream.end, ahead - stream.end);

    ssize_t got = stream.io.read({parts.data(), count});
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
    if (stream.damaged) {
      result.error = kDamaged;
      break;
    }
    if (bytes < wanted) {
      result.drained = !stream.io.buffered();
      break;
    }
  }
  result.idle = kHeaderBytes * (stream.pings - pings);
  return result;
}

}  // namespace tombolo::transport::tcp
