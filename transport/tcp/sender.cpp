#include "transport/tcp/sender.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/crc32c.h"

namespace tombolo::transport::tcp {

Sender::Sender(const SenderOptions& options)
    : options_(options),
      messages_(std::make_unique_for_overwrite<Message[]>(kMessages)),
      replay_(options.replay_bytes) {
  options_.chunk = std::min(options_.chunk, kLongestChunk);
}

void Sender::copy_everything(std::size_t replay_bytes) noexcept {
  options_.copy_up_to = options_.copy_alone_up_to = SIZE_MAX;
  replay_.set_capacity(replay_bytes);
}

void Sender::post(PostedRequest* request) noexcept {
  Message& fresh = message(posted_);
  fresh = {request->data, request->size, 0, 0, request, nullptr, 0, false};
  const bool alone = !unwritten() && !waiting();
  if (request->size != 0 && request->size <= (alone ? options_.copy_alone_up_to : options_.copy_up_to))
    fresh.copy = replay_.take(request->size);
  if (!fresh.done_when_written()) ++waiting_;
  fresh.replay_end = replay_.position();
  bytes_ += request->size;
  ++posted_;
}

void Sender::complete(Message& whole) noexcept {
  if (whole.request == nullptr) return;
  whole.request->moved = whole.size;
  whole.request->state = PostedRequest::State::kDone;
  whole.request = nullptr;
  if (whole.copy != nullptr) whole.data = whole.copy;
  if (!whole.done_when_written()) --waiting_;
  ++completed_;
}

void Sender::join(std::size_t index, const sockets::StreamIo& io) {
  if (index >= streams_.size()) streams_.resize(index + 1);
  Stream& stream = streams_[index];
  if (!stream.segments) stream.segments = std::make_unique_for_overwrite<Segment[]>(kSegments);
  stream.io = io;
  stream.begin = stream.written = stream.end = 0;
  stream.queued = stream.written_of_first = 0;
  stream.acknowledged = 0;
}

void Sender::lose(std::size_t index, std::uint32_t epoch) {
  Stream& stream = streams_[index];
  if (!stream.live()) return;
  if (stream.pending) --unwritten_;
  stream.pending = false;
  stream.io = {-1};
  // A stream whose earlier epoch is not resolved has taken on no chunk since, so the list of what it lost is
  // still right.
  if (stream.open) return;
  stream.lost.clear();
  for (std::size_t i = stream.begin; i != stream.end; ++i) {
    const Segment& segment = stream.segments[i % kSegments];
    if (!segment.chunk) continue;
    if (i >= stream.written)
      --unwritten_;
    else
      message(segment.sequence).written -= segment.length;
    stream.lost.push_back(*decode(segment.header));
  }
  // Chunks that were to be sent again and were not yet are older than those that the stream took on.
  again_ -= stream.again.size();
  stream.lost.insert(stream.lost.end(), stream.again.rbegin(), stream.again.rend());
  stream.again.clear();
  stream.begin = stream.written = stream.end = 0;
  stream.queued = stream.written_of_first = 0;
  stream.lost_epoch = epoch;
  stream.lost_acknowledged = stream.acknowledged;
  stream.open = true;
  ++unresolved_;
}

bool Sender::resolve_epoch(std::size_t index, std::uint32_t first_epoch, std::uint32_t last_epoch,
                           std::uint32_t count) {
  if (index >= streams_.size()) return true;  // nothing was sent on it yet
  Stream& stream = streams_[index];
  // The peer sends a summary more than once, in case the stream that carries it breaks too.
  if (!stream.open || stream.lost_epoch < first_epoch || stream.lost_epoch > last_epoch) return true;
  const std::uint32_t arrived = count - stream.lost_acknowledged;
  if (arrived > stream.lost.size()) return false;
  for (std::size_t i = 0; i < arrived; ++i) {
    const FrameHeader& chunk = stream.lost[i];
    // This chunk needs no copy any more, but the rest of its message may have been written meanwhile.
    Message& whole = message(chunk.sequence);
    whole.written += chunk.length;
    if (whole.done_when_written() && whole.written == whole.size) complete(whole);
    chunk_arrived(chunk.sequence, chunk.length);
  }
  // The oldest chunk is last: chunks are taken from the end.
  for (std::size_t i = stream.lost.size(); i > arrived; --i) stream.again.push_back(stream.lost[i - 1]);
  again_ += stream.again.size();
  stream.lost.clear();
  stream.open = false;
  --unresolved_;
  return true;
}

bool Sender::owes() const noexcept {
  auto done = [&](const FrameHeader& chunk) {
    return messages_[chunk.sequence % kMessages].request == nullptr;
  };
  for (const Stream& stream : streams_) {
    if (stream.pending && stream.io.tls->written() < stream.owed) return true;
    if (std::ranges::any_of(stream.lost, done) || std::ranges::any_of(stream.again, done)) return true;
    // What is sent again counts as unwritten until the kernel has it.
    for (std::size_t i = stream.written; stream.live() && i != stream.end; ++i) {
      const Segment& segment = stream.segments[i % kSegments];
      if (segment.chunk && messages_[segment.sequence % kMessages].request == nullptr) return true;
    }
  }
  return false;
}

void Sender::chunk_arrived(std::uint64_t sequence, std::size_t length) noexcept {
  Message& whole = message(sequence);
  whole.acknowledged += length;
  acknowledged_bytes_ += length;
  if (whole.acknowledged != whole.size) return;
  whole.finished = true;
  complete(whole);
  if (sequence != oldest_) return;
  std::uint64_t replay_end = 0;
  do replay_end = message(oldest_++).replay_end;
  while (oldest_ != posted_ && message(oldest_).finished);
  replay_.give_back_to(replay_end);
}

bool Sender::acknowledge(std::size_t index, std::uint32_t count) noexcept {
  Stream& stream = streams_[index];
  while (stream.acknowledged != count) {
    if (stream.begin == stream.written) return false;
    const Segment& segment = stream.segments[stream.begin % kSegments];
    ++stream.begin;
    if (!segment.chunk) continue;
    ++stream.acknowledged;
    chunk_arrived(segment.sequence, segment.length);
  }
  return true;
}

bool Sender::say(std::size_t index, const FrameHeader& header) noexcept {
  Stream& stream = streams_[index];
  if (!stream.live() || stream.end - stream.begin == kSegments) return false;
  // It goes before frames that are not begun yet, because it is small and the peer waits for it.
  const std::size_t at = stream.written + (stream.written_of_first != 0 ? 1 : 0);
  for (std::size_t i = stream.end; i > at; --i)
    stream.segments[i % kSegments] = stream.segments[(i - 1) % kSegments];
  Segment& segment = stream.segments[at % kSegments];
  encode(header, segment.header);
  segment.data = nullptr;
  segment.length = 0;
  segment.chunk = false;
  ++stream.end;
  return true;
}

void Sender::add_chunk(Stream& stream, FrameHeader header) noexcept {
  const Message& whole = message(header.sequence);
  Segment& segment = stream.segments[stream.end % kSegments];
  segment.data = whole.data + header.offset;
  segment.sequence = header.sequence;
  segment.length = header.length;
  segment.chunk = true;
  // The flag is also set when a few chunks of one stream, which the peer has not acknowledged yet, hold back
  // everything that went over the others.
  if (!whole.done_when_written() || many_unacknowledged()) header.flags |= kUrgentFlag;
  if (options_.checksums) {
    header.flags |= kChecksumFlag;
    header.checksum = crc32c({segment.data, segment.length});
  }
  encode(header, segment.header);
  ++stream.end;
  ++unwritten_;
  stream.queued += header.length;
}

void Sender::pull(Stream& stream, std::uint32_t ack) noexcept {
  if (stream.open) return;
  while (has_room(stream)) {
    FrameHeader header;
    if (!stream.again.empty()) {
      header = stream.again.back();
      stream.again.pop_back();
      --again_;
      header.flags = kReplayFlag;
      ++stream.replayed;
    } else if (next_ != posted_) {
      const Message& whole = message(next_);
      header.length = static_cast<std::uint32_t>(std::min(options_.chunk, whole.size - next_offset_));
      header.sequence = next_;
      header.total = whole.size;
      header.offset = next_offset_;
      next_offset_ += header.length;
      if (next_offset_ == whole.size) {
        ++next_;
        next_offset_ = 0;
      }
    } else {
      return;
    }
    header.ack = ack;
    add_chunk(stream, header);
  }
}

void Sender::advance(Stream& stream, std::size_t written) noexcept {
  stream.written_of_first += written;
  while (stream.written != stream.end) {
    const Segment& segment = stream.segments[stream.written % kSegments];
    std::size_t size = kHeaderBytes + segment.length;
    if (stream.written_of_first < size) return;
    stream.written_of_first -= size;
    stream.queued -= segment.length;
    ++stream.written;
    if (!segment.chunk) continue;
    --unwritten_;
    ++stream.chunks;
    Message& whole = message(segment.sequence);
    whole.written += segment.length;
    if (whole.request == nullptr || !whole.done_when_written()) continue;
    if (whole.copy != nullptr)
      std::memcpy(whole.copy + (segment.data - whole.data), segment.data, segment.length);
    if (whole.written == whole.size) complete(whole);
  }
  // Frames without payload need no acknowledgement.
  while (stream.begin != stream.written && !stream.segments[stream.begin % kSegments].chunk) ++stream.begin;
}

void Sender::note_pending(Stream& stream, bool completed) noexcept {
  if (completed) stream.owed = stream.io.tls->produced();
  if (stream.pending == stream.io.pending()) return;
  stream.pending = !stream.pending;
  if (stream.pending)
    ++unwritten_;
  else
    --unwritten_;
}

std::vector<std::byte> Sender::last_words(std::size_t index) const {
  const Stream& stream = streams_[index];
  std::vector<std::byte> words;
  std::size_t skip = stream.written_of_first;
  for (std::size_t i = stream.written; i != stream.end && !stream.segments[i % kSegments].chunk; ++i) {
    const HeaderBytes& header = stream.segments[i % kSegments].header;
    words.insert(words.end(), header.begin() + static_cast<std::ptrdiff_t>(skip), header.end());
    skip = 0;
  }
  return words;
}

Sender::Result Sender::flush(std::size_t index, std::size_t allowance, std::uint32_t ack) noexcept {
  Stream& stream = streams_[index];
  Result result;
  if (stream.pending) {
    if (stream.io.tls->flush() != 0) {
      result.blocked = errno == EAGAIN || errno == EWOULDBLOCK;
      result.error = result.blocked ? 0 : errno;
      return result;
    }
    note_pending(stream, false);
  }
  std::array<iovec, 2 * kBatch> parts;
  while (allowance > 0) {
    pull(stream, ack);
    if (stream.written == stream.end) break;
    std::size_t count = 0, wanted = 0, skip = stream.written_of_first;
    auto add = [&](const std::byte* data, std::size_t length) {
      std::size_t skipped = std::min(skip, length);
      skip -= skipped;
      length = std::min(length - skipped, allowance - wanted);
      if (length == 0) return;
      parts[count++] = {const_cast<std::byte*>(data + skipped), length};
      wanted += length;
    };
    const std::size_t until = std::min(stream.end, stream.written + kBatch);
    for (std::size_t i = stream.written; i != until; ++i) {
      const Segment& segment = stream.segments[i % kSegments];
      add(segment.header.data(), kHeaderBytes);
      add(segment.data, segment.length);
    }
    ssize_t sent = stream.io.write({parts.data(), count});
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
    const std::uint64_t completed = completed_;
    advance(stream, written);
    if (stream.io.tls != nullptr) [[unlikely]]
      note_pending(stream, completed != completed_);
    result.written += written;
    allowance -= written;
    if (written < wanted || stream.pending) {
      result.blocked = true;
      break;
    }
  }
  return result;
}

}  // namespace tombolo::transport::tcp
