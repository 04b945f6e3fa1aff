#include "transport/tcp/stream/receiver.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/crc32c.h"
#include "base/hash.h"

namespace tombolo::transport::tcp {
namespace {

using State = ReceiveSide::State;

// After a chunk of this size the next one is probably large too. Then only its header is read ahead, and its
// payload goes straight into the receive.
constexpr std::size_t kLarge = 32 * 1024;

// Acknowledgements for which the sender does not wait are sent after so many bytes: well before the sender's
// replay buffer, which all streams share, is full. Each stream is acknowledged after its share of these
// bytes, but not after fewer than the least.
constexpr std::size_t kTellAfterBytes = 192 * 1024, kTellAfterLeast = 64 * 1024;

/// What a chunk between the two offsets adds to its message's seams. A seam that one chunk ends at and
/// another begins at cancels out. Where what is left is the message's begin and end alone, its chunks form
/// one chain between them, so that every byte came once: the lengths, which add up to the message's, leave no
/// chunk for a second. That holds for any order, and costs no list of what has come. Offsets are hashed
/// because their plain sums could be equal for other chunks too.
std::uint64_t seams_of(std::uint64_t begin, std::uint64_t end) noexcept {
  return mix(begin) - mix(end);
}

}  // namespace

Receiver::Receiver(Overlong overlong) : overlong_(overlong) {
  epoch_summaries_.reserve(kMostEpochSummaries);
  share_among(1);
}

void Receiver::share_among(std::size_t streams) noexcept {
  tell_after_ = std::max(kTellAfterBytes / std::max<std::size_t>(streams, 1), kTellAfterLeast);
}

void Receiver::lose(Stream& stream) noexcept {
  ReceiveSide& side = stream.receive;
  if (side.request_ != nullptr) side.request_->claimed -= side.header_.length;
  side.request_ = nullptr;
  side.overlong_.reset();
  enter(side, State::kEnded);
  side.staging_.use(side.staging_.size());
}

/// Every change of a side's state goes this way, so that the number of those that hold a chunk back is right.
void Receiver::enter(ReceiveSide& side, State state) noexcept {
  if (side.held_back()) --held_back_;
  side.state_ = state;
  if (side.held_back()) ++held_back_;
}

void Receiver::set_fault(Fault fault, const FrameHeader& header) noexcept {
  if (fault_ != Fault::kNone) return;
  fault_ = fault;
  fault_header_ = header;
}

void Receiver::go_on(Stream& stream) {
  if (stream.receive.held_back()) consume(stream.receive);
}

/// Where the chunk's bytes go; null where they may not, or where there is no memory for what does not fit.
std::byte* Receiver::place_of(ReceiveSide& side, const PostedRequest& request) noexcept {
  const FrameHeader& header = side.header_;
  if (header.total <= request.size) return request.data + header.offset;
  if (overlong_ == Overlong::kError) return nullptr;
  if (header.offset + header.length <= request.size) return request.data + header.offset;
  side.overlong_.reset(new (std::nothrow) std::byte[header.length]);
  return side.overlong_.get();
}

/// Starts to place a chunk. False where it has to wait for its receive, or is faulty.
bool Receiver::begin_chunk(ReceiveSide& side) noexcept {
  const FrameHeader& header = side.header_;
  if (header.sequence >= window_.posted()) {
    enter(side, State::kHeldBack);
    return false;
  }
  enter(side, State::kHeader);
  PostedRequest* request = window_.find(header.sequence);
  // On one stream chunks come in order, so that only one that is sent again can come twice.
  const bool replayed = (header.flags & kReplayFlag) != 0;
  bool in_order = replayed || !side.last_ || header.sequence > side.last_->sequence ||
                  (header.sequence == side.last_->sequence && header.offset > side.last_->offset);
  if (request == nullptr || !in_order || (request->known && request->total != header.total) ||
      header.length > header.total - std::min<std::uint64_t>(request->claimed, header.total)) {
    set_fault(Fault::kMalformed, header);
    return false;
  }
  std::byte* const to = place_of(side, *request);
  if (to == nullptr && header.length > 0) {
    fault_capacity_ = request->size;
    set_fault(Fault::kTooLarge, header);
    return false;
  }
  request->known = true;
  request->total = header.total;
  request->claimed += header.length;
  if (!replayed) side.last_ = {header.sequence, header.offset};
  side.last_was_large_ = header.length >= kLarge;
  side.request_ = request;
  side.to_ = to;
  side.left_ = header.length;
  enter(side, State::kPayload);
  return true;
}

void Receiver::end_chunk(ReceiveSide& side) noexcept {
  PostedRequest* request = side.request_;
  const FrameHeader& header = side.header_;
  const std::byte* const came = side.overlong_ ? side.overlong_.get() : request->data + header.offset;
  if ((header.flags & kChecksumFlag) != 0 && crc32c({came, header.length}) != header.checksum) {
    enter(side, State::kDamaged);
    return;
  }
  if (side.overlong_) {
    if (header.offset < request->size)
      std::memcpy(request->data + header.offset, came, request->size - header.offset);
    side.overlong_.reset();
  }
  enter(side, State::kHeader);
  side.request_ = nullptr;
  ++side.chunks_;
  side.ack_.came(header.length, tell_after_, asked_);
  request->moved += header.length;
  bytes_ += header.length;
  const bool in_parts = header.length != header.total;
  if (in_parts) request->seams += seams_of(header.offset, header.offset + header.length);
  if (request->moved == request->total) {
    // Chunks that overlap leave a hole elsewhere.
    if (in_parts && request->seams != seams_of(0, request->total))
      return set_fault(Fault::kMalformed, header);
    request->moved = std::min(request->moved, request->size);
    request->state = PostedRequest::State::kDone;
    ++messages_;
    window_.finish(header.sequence);
    // The message's sender waits until it knows that every chunk has arrived, on whatever stream.
    if ((header.flags & kUrgentFlag) != 0) ++asked_;
  }
}

void Receiver::take_frame(ReceiveSide& side, const FrameHeader& header) {
  if (header.type != FrameType::kGoodbye) side.take_ack(header.ack);
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
      side.peer_end_ = PeerEnd::kGoodbye;
      if (header.reason != GoodbyeReason::kClosed) set_fault(Fault::kPeerFailed, header);
      return;
    default:  // kPing has no content
      ++side.pings_;
      return;
  }
}

/// Handles the frames that staging holds, as far as posted receives allow.
void Receiver::consume(ReceiveSide& side) {
  Staging& staging = side.staging_;
  while (fault_ == Fault::kNone && !side.damaged()) {
    if (side.state_ == State::kPayload) {
      const std::size_t count = std::min(side.left_, staging.size());
      if (count != 0) std::memcpy(side.to_, staging.unused().data(), count);
      staging.use(count);
      side.to_ += count;
      side.left_ -= count;
      if (side.left_ != 0) break;
      end_chunk(side);
    } else if (side.held_back()) {
      if (!begin_chunk(side)) break;
    } else {
      if (staging.size() < kHeaderBytes) break;
      const auto bytes = staging.unused().first<kHeaderBytes>();
      if (!intact(bytes)) {
        enter(side, State::kDamaged);
        break;
      }
      auto header = decode(bytes);
      staging.use(kHeaderBytes);
      if (!header || side.peer_end_ == PeerEnd::kGoodbye) {
        set_fault(Fault::kMalformed, header.value_or(FrameHeader{}));
      } else if (header->type == FrameType::kChunk) {
        side.take_ack(header->ack);
        side.header_ = *header;
        if (!begin_chunk(side)) {
          // Part of what follows the blocked chunk is in staging already, and no later read may come to scan
          // it.
          staging.scan_behind(header->length);
          scan(side);
          break;
        }
      } else {
        take_frame(side, *header);
      }
    }
  }
  if (staging.size() != 0) return;
  if (!side.held_back()) staging.end_scan();  // the rest of a chunk does not come through staging
  staging.reset();
}

/// Scans the frames behind the one that waits for acknowledgements and epoch summaries. Behind a damaged
/// header nothing more can be read, and the receive that the first frame waits for may depend on a summary
/// there; so such a stream is useless at once. Any other fault is found when the frame's turn comes.
void Receiver::scan(ReceiveSide& side) {
  while (const auto bytes = side.staging_.to_scan()) {
    if (!intact(*bytes)) return enter(side, State::kDamaged);
    auto header = decode(*bytes);
    if (header && header->type == FrameType::kGoodbye && header->reason == GoodbyeReason::kClosed)
      side.peer_end_ = PeerEnd::kGoodbyeAhead;
    if (!header || header->type == FrameType::kGoodbye) return;
    if (header->type == FrameType::kEpochSummary) take_frame(side, *header);
    side.take_ack(header->ack);
    side.staging_.scanned(kHeaderBytes + header->length);
  }
}

std::size_t Receiver::read_rest(Stream& stream) {
  const std::size_t rest = stream.io().readable();
  std::size_t got = 0;
  for (std::size_t read = 1; read != 0 && got < rest; got += read) read = this->read(stream, rest - got).read;
  return got;
}

bool Receiver::rest_reaches_the_end(Stream& stream) {
  hold(stream, SIZE_MAX, stream.io().readable() + 1);  // the end itself is seen by reading for one byte more
  return stream.receive.ends_behind_a_chunk();
}

Receiver::Result Receiver::read_ahead(Stream& stream, std::size_t allowance) {
  return hold(stream, ReceiveSide::kMostAhead, allowance);
}

/// Reads behind the chunk that waits for its receive until staging holds `most` bytes.
Receiver::Result Receiver::hold(Stream& stream, std::size_t most, std::size_t allowance) {
  ReceiveSide& side = stream.receive;
  Result result;
  if (side.damaged()) result.error = kDamaged;
  while (side.held_back() && side.staging_.size() < most && result.read < allowance) {
    side.staging_.make_room();
    const std::span<std::byte> room = side.staging_.room();
    iovec part{room.data(), std::min(room.size(), allowance - result.read)};
    ssize_t got = stream.io().read({&part, 1});
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      // An orderly end is handled when its turn comes, and so is what a socket does behind a goodbye. Another
      // error is told at once, because the kernel tells it once.
      result.drained = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
      const bool unknown = side.peer_end_ == PeerEnd::kUnknown;
      if (got < 0 && !result.drained && unknown) result.error = errno;
      if (got == 0 && unknown) side.peer_end_ = PeerEnd::kEndAhead;
      return result;
    }
    side.staging_.add(static_cast<std::size_t>(got));
    result.read += static_cast<std::size_t>(got);
    scan(side);
    if (side.damaged()) result.error = kDamaged;
  }
  return result;
}

Receiver::Result Receiver::read(Stream& stream, std::size_t allowance) {
  ReceiveSide& side = stream.receive;
  Result result;
  const std::size_t pings = side.pings_;
  if (side.damaged()) result.error = kDamaged;
  while (fault_ == Fault::kNone && result.error == 0 && side.wants_data() && allowance > 0) {
    std::array<iovec, 2> parts;
    std::size_t count = 0, wanted = 0, direct = 0;
    auto add = [&](std::byte* to, std::size_t length) {
      length = std::min(length, allowance - wanted);
      if (length == 0) return;
      parts[count++] = {to, length};
      wanted += length;
    };
    if (side.state_ == State::kPayload) {
      // consume() has emptied staging into the chunk, so the rest of it comes straight from the socket.
      add(side.to_, side.left_);
      direct = wanted;
    } else {
      side.staging_.move_to_front();
    }
    const std::size_t ahead = side.last_was_large_ ? kHeaderBytes : Staging::kUsualBytes;
    add(side.staging_.room().data(), ahead - side.staging_.size());

    ssize_t got = stream.io().read({parts.data(), count});
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        result.drained = true;
      } else {
        result.error = errno;
        enter(side, State::kEnded);
      }
      break;
    }
    if (got == 0) {
      result.ended = true;
      enter(side, State::kEnded);
      break;
    }
    auto bytes = static_cast<std::size_t>(got);
    result.read += bytes;
    allowance -= bytes;
    std::size_t into_chunk = std::min(bytes, direct);
    side.to_ += into_chunk;
    side.left_ -= into_chunk;
    side.staging_.add(bytes - into_chunk);
    consume(side);
    if (side.damaged()) {
      result.error = kDamaged;
      break;
    }
    if (bytes < wanted) {
      result.drained = !stream.io().buffered();
      break;
    }
  }
  result.idle = kHeaderBytes * (side.pings_ - pings);
  return result;
}

}  // namespace tombolo::transport::tcp
