#include "transport/tcp/stream/sender.h"

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

void Sender::lose(Stream& stream) {
  SendSide& side = stream.send;
  if (side.pending_) --unwritten_;
  side.pending_ = false;
  // A stream whose earlier epoch is not resolved has taken on no chunk since, so what it lost is still right.
  if (side.lost_) return;
  SendSide::LostEpoch lost{stream.epoch(), side.acknowledged_, {}};
  for (std::size_t i = side.begin_; i != side.end_; ++i) {
    const SendSide::Segment& segment = side.at(i);
    if (!segment.chunk) continue;
    if (i >= side.written_)
      --unwritten_;
    else
      message(segment.sequence).written -= segment.length;
    lost.chunks.push_back(*decode(segment.header));
  }
  // Chunks that were to be sent again and were not yet are older than those that the stream took on.
  again_ -= side.again_.size();
  lost.chunks.insert(lost.chunks.end(), side.again_.rbegin(), side.again_.rend());
  side.again_.clear();
  side.clear();
  side.lost_ = std::move(lost);
  ++unresolved_;
}

bool Sender::resolve_epoch(Stream& stream, std::uint32_t first_epoch, std::uint32_t last_epoch,
                           std::uint32_t count) {
  SendSide& side = stream.send;
  // The peer sends a summary more than once, in case the stream that carries it breaks too.
  if (!side.lost_ || side.lost_->epoch < first_epoch || side.lost_->epoch > last_epoch) return true;
  const std::vector<FrameHeader>& lost = side.lost_->chunks;
  const std::uint32_t arrived = count - side.lost_->acknowledged;
  if (arrived > lost.size()) return false;
  for (std::size_t i = 0; i < arrived; ++i) {
    const FrameHeader& chunk = lost[i];
    // This chunk needs no copy any more, but the rest of its message may have been written meanwhile.
    Message& whole = message(chunk.sequence);
    whole.written += chunk.length;
    if (whole.done_when_written() && whole.written == whole.size) complete(whole);
    chunk_arrived(chunk.sequence, chunk.length);
  }
  // The oldest chunk is last: chunks are taken from the end.
  for (std::size_t i = lost.size(); i > arrived; --i) side.again_.push_back(lost[i - 1]);
  again_ += side.again_.size();
  side.lost_.reset();
  --unresolved_;
  return true;
}

bool Sender::owes(const Stream& stream, bool in_doubt) const noexcept {
  const SendSide& side = stream.send;
  auto done = [&](const FrameHeader& chunk) {
    return messages_[chunk.sequence % kMessages].request == nullptr;
  };
  if (side.pending_ && stream.tls()->written() < side.owed_) return true;
  if (side.lost_ && std::ranges::any_of(side.lost_->chunks, done)) return true;
  if (std::ranges::any_of(side.again_, done)) return true;
  // What is sent again counts as unwritten until the kernel has it.
  for (std::size_t i = in_doubt ? side.begin_ : side.written_; stream.live() && i != side.end_; ++i) {
    const SendSide::Segment& segment = side.at(i);
    if (segment.chunk && messages_[segment.sequence % kMessages].request == nullptr) return true;
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

bool Sender::acknowledge(Stream& stream, std::uint32_t count) noexcept {
  SendSide& side = stream.send;
  while (side.acknowledged_ != count) {
    if (side.begin_ == side.written_) return false;
    const SendSide::Segment& segment = side.at(side.begin_);
    ++side.begin_;
    if (!segment.chunk) continue;
    ++side.acknowledged_;
    chunk_arrived(segment.sequence, segment.length);
  }
  return true;
}

void Sender::add_chunk(SendSide& side, FrameHeader header) noexcept {
  const Message& whole = message(header.sequence);
  SendSide::Segment& segment = side.at(side.end_);
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
  ++side.end_;
  ++unwritten_;
  side.queued_ += header.length;
}

void Sender::pull(Stream& stream) noexcept {
  SendSide& side = stream.send;
  if (side.lost_) return;
  while (side.has_room(options_.backlog)) {
    FrameHeader header;
    if (!side.again_.empty()) {
      header = side.again_.back();
      side.again_.pop_back();
      --again_;
      header.flags = kReplayFlag;
      ++side.replayed_;
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
    header.ack = stream.receive.count();
    add_chunk(side, header);
  }
}

void Sender::advance(SendSide& side, std::size_t written) noexcept {
  side.written_of_first_ += written;
  while (side.written_ != side.end_) {
    const SendSide::Segment& segment = side.at(side.written_);
    std::size_t size = kHeaderBytes + segment.length;
    if (side.written_of_first_ < size) return;
    side.written_of_first_ -= size;
    side.queued_ -= segment.length;
    ++side.written_;
    if (!segment.chunk) continue;
    --unwritten_;
    ++side.chunks_;
    Message& whole = message(segment.sequence);
    whole.written += segment.length;
    if (whole.request == nullptr || !whole.done_when_written()) continue;
    if (whole.copy != nullptr)
      std::memcpy(whole.copy + (segment.data - whole.data), segment.data, segment.length);
    if (whole.written == whole.size) complete(whole);
  }
  // Frames without payload need no acknowledgement.
  while (side.begin_ != side.written_ && !side.at(side.begin_).chunk) ++side.begin_;
}

void Sender::note_pending(Stream& stream, bool completed) noexcept {
  SendSide& side = stream.send;
  if (completed) side.owed_ = stream.tls()->produced();
  if (side.pending_ == stream.tls()->pending()) return;
  side.pending_ = !side.pending_;
  if (side.pending_)
    ++unwritten_;
  else
    --unwritten_;
}

Sender::Result Sender::flush(Stream& stream, std::size_t allowance) noexcept {
  SendSide& side = stream.send;
  Result result;
  if (side.pending_) {
    if (stream.tls()->flush() != 0) {
      result.blocked = errno == EAGAIN || errno == EWOULDBLOCK;
      result.error = result.blocked ? 0 : errno;
      return result;
    }
    note_pending(stream, false);
  }
  std::array<iovec, 2 * SendSide::kBatch> parts;
  while (allowance > 0) {
    pull(stream);
    if (side.written_ == side.end_) break;
    std::size_t count = 0, wanted = 0, skip = side.written_of_first_;
    auto add = [&](const std::byte* data, std::size_t length) {
      std::size_t skipped = std::min(skip, length);
      skip -= skipped;
      length = std::min(length - skipped, allowance - wanted);
      if (length == 0) return;
      parts[count++] = {const_cast<std::byte*>(data + skipped), length};
      wanted += length;
    };
    const std::size_t until = std::min(side.end_, side.written_ + SendSide::kBatch);
    for (std::size_t i = side.written_; i != until; ++i) {
      const SendSide::Segment& segment = side.at(i);
      add(segment.header.data(), kHeaderBytes);
      add(segment.data, segment.length);
    }
    ssize_t sent = stream.io().write({parts.data(), count});
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
    advance(side, written);
    if (stream.tls() != nullptr) [[unlikely]]
      note_pending(stream, completed != completed_);
    result.written += written;
    allowance -= written;
    if (written < wanted || side.pending_) {
      result.blocked = true;
      break;
    }
  }
  return result;
}

}  // namespace tombolo::transport::tcp
