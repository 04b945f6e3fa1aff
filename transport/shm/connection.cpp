#include "transport/shm/connection.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "transport/kernel.h"

namespace tombolo::transport::shm {
namespace {

// Fewer bytes always go through the ring: a system call that reads another process's memory takes 1.5 us and
// the test of the memory before it as much, in which 32 KiB are copied into the ring and out of it.
constexpr std::size_t kFetchFrom = 32 * 1024;

// Turns in which nothing moves take some 40 ns each, and a yield with a switch to another process 2 us.
constexpr unsigned kTurnsToGiveWay = 64;

/// One more than the number of the processor on which this runs; 0: not known.
std::uint32_t this_processor() noexcept {
  return static_cast<std::uint32_t>(kernel().sched_getcpu() + 1);
}

Record goodbye_record(GoodbyeReason reason, std::uint64_t size = 0, std::uint64_t capacity = 0) noexcept {
  return {0, RecordType::kGoodbye, static_cast<std::uint16_t>(reason), 0, size, capacity};
}

}  // namespace

bool fetchable(std::span<const std::byte> data) noexcept {
  // The test costs one system call, a quarter of the time in which 64 KiB are read, of which the sender has
  // some to spare.
  std::array<std::byte, 2> got;
  iovec mine{got.data(), got.size()};
  const std::array<iovec, 2> ends{iovec{const_cast<std::byte*>(&data.front()), 1},
                                  iovec{const_cast<std::byte*>(&data.back()), 1}};
  return kernel().process_vm_readv(kernel().getpid(), &mine, 1, ends.data(), ends.size(), 0) ==
         std::ssize(got);
}

ShmConnection::ShmConnection(channel::ControlChannel channel, Agreed agreed)
    : ChannelConnection(std::move(channel), "shm"),
      agreed_(std::move(agreed)),
      out_(agreed_.mapping->rings[channel_.connecting ? 0 : 1]),
      in_(agreed_.mapping->rings[channel_.connecting ? 1 : 0]),
      writer_(out_),
      reader_(in_),
      book_(CopyBook::of(agreed_.peer.process())) {}

ShmConnection::~ShmConnection() {
  if (is_copy()) return;
  // This comes first: bytes that the peer fetches after it may no longer be those that were sent.
  agreed_.witness.wipe();
  step();
  if (!error_) writer_.write(goodbye_record(GoodbyeReason::kClosed), nullptr);
  kernel().shutdown(socket(), SHUT_RDWR);
}

Request* ShmConnection::post_send(std::span<const std::byte> data, Memory*) noexcept {
  PostedRequest* request = new_send(data);
  if (request == nullptr || error_) return request;
  outgoing_.push(request);
  if (next_ + 1 == outgoing_.posted()) send_all();  // nothing waits before it
  return request;
}

Request* ShmConnection::post_receive(std::span<std::byte> buffer, Memory*) noexcept {
  PostedRequest* request = new_receive(buffer);
  if (request == nullptr || error_) return request;
  incoming_.push(request);
  return request;
}

Outcome ShmConnection::test(Request* base, std::size_t& bytes) noexcept {
  auto* request = static_cast<PostedRequest*>(base);
  if (request->state != PostedRequest::State::kDone && !error_) progress();
  return outcome_of(*request, bytes);
}

bool ShmConnection::progress() noexcept {
  if (error_) return false;
  bool moved = true;
  guarded([&] { moved = advance(); },
          [this](Cause cause, std::string_view what) noexcept {
            fail_with(cause, what, GoodbyeReason::kFailed);
          });
  return moved;
}

bool ShmConnection::advance() {
  if (wake_up()) {
    in_.reader_sleeps.store(0, std::memory_order_relaxed);
    step();
    look_at_channel();  // the wake-ups there
    if (error_) return true;
  }
  bool moved = announced_ > fetched_seen_ && notice_fetched();
  if (next_ < outgoing_.posted()) moved |= send_all();
  if (!error_) moved |= receive_all();
  if (!moved) give_way();
  if (!count_turn(moved) || error_) return moved;
  look_at_channel();
  if (error_) return moved;
  if (const std::string why = stalled(); !why.empty())
    fail_with(Cause::kTimeout, why, GoodbyeReason::kTimeout);
  return moved;
}

/// Leaves the processor to the peer, which may need this very one to go on. A peer that only sends on this
/// connection may have said nothing of its own.
void ShmConnection::give_way() noexcept {
  if (idle_turns() % kTurnsToGiveWay != kTurnsToGiveWay - 1) return;
  tell_processor();
  if (peer_processor() == 0 || peer_processor() == this_processor()) kernel().sched_yield();
}

std::uint32_t ShmConnection::peer_processor() const noexcept {
  return out_.reader_processor.load(std::memory_order_relaxed);
}

void ShmConnection::tell_processor() noexcept {
  const std::uint32_t own = this_processor();
  // The peer's cache keeps the line where nothing changes.
  if (in_.reader_processor.load(std::memory_order_relaxed) != own)
    in_.reader_processor.store(own, std::memory_order_relaxed);
}

/// Whether the rest of the message at next_ may be left for the peer to read.
bool ShmConnection::is_large(const PostedRequest& request) const noexcept {
  return agreed_.fetch != Fetch::kNever && request.size - next_offset_ > kFetchFrom;
}

bool ShmConnection::send_all() noexcept {
  TurnBudget budget;
  bool moved = false;
  while (next_ < outgoing_.posted() && !budget.spent() && send_part(*outgoing_.find(next_), budget))
    moved = true;
  if (moved) wake_peer();
  return moved;
}

/// Sends the next part of the message at next_; false where that has to wait.
bool ShmConnection::send_part(PostedRequest& request, TurnBudget& budget) noexcept {
  const std::uint64_t announced = announced_;
  const std::size_t before = next_offset_;
  if (!(is_large(request) ? send_part_of_large(request) : write_part(request))) return false;
  if (announced_ != announced)
    budget.announced();
  else
    budget.copied(next_offset_ - before);
  if (next_offset_ < request.size) return true;
  if (last_part_ <= fetched_seen_) {
    finish_send(next_, request);
  } else {
    to_fetch_[to_fetch_end_++ % kRequestsPerDirection] = {next_, last_part_};
  }
  last_part_ = 0;
  next_offset_ = 0;
  ++next_;
  return true;
}

/// Whether the next part of the message at next_ need not wait for the peer. Where it says that it must
/// although it need not, the peer has yet to take so much that it will wake this end.
bool ShmConnection::may_send(const PostedRequest& request) const noexcept {
  return (!is_large(request) || may_announce()) &&
         writer_.has_room_for(std::min(request.size - next_offset_, kLongestRecord));
}

bool ShmConnection::send_part_of_large(const PostedRequest& request) noexcept {
  if (agreed_.fetch == Fetch::kAlways)
    return may_announce() && (announce_part(request) || write_part(request));
  const WayChoice::Choice choice = book_->choice.next(costs());
  const bool read = choice.way == WayChoice::Way::kRead;
  // Where the ring is the dearer way, a part rather waits for those that the peer has yet to fetch.
  if (read && !may_announce()) return false;
  const std::size_t before = next_offset_;
  const bool sent = (read && announce_part(request)) || write_part(request);
  if (sent) book_->choice.went(choice, next_offset_ - before);
  return sent;
}

/// Copies the next part into the ring; false where there is no room.
bool ShmConnection::write_part(const PostedRequest& request) noexcept {
  const std::size_t length = std::min(request.size - next_offset_, kLongestRecord);
  const auto type = length == request.size ? RecordType::kWhole : RecordType::kPiece;
  const bool measured = length >= CopyCost::kLeast;
  const TimePoint begin = measured ? now() : TimePoint();
  if (!writer_.write({0, type, 0, length, request.size, 0}, request.data + next_offset_)) return false;
  if (measured) book_->into_ring.add(now() - begin, length);
  next_offset_ += length;
  return true;
}

/// Leaves the next part for the peer to fetch; false where it cannot fetch it.
bool ShmConnection::announce_part(const PostedRequest& request) noexcept {
  const std::size_t length = std::min(request.size - next_offset_, kFetchPart);
  const bool measured = length >= CopyCost::kLeast;
  const TimePoint before = measured ? now() : TimePoint();
  std::byte* const begin = request.data + next_offset_;
  if (!fetchable({begin, length}) ||
      !writer_.write({0, RecordType::kFetch, 0, length, request.size, reinterpret_cast<std::uint64_t>(begin)},
                     nullptr))
    return false;
  if (measured) book_->announcing.add(now() - before, length);
  next_offset_ += length;
  last_part_ = ++announced_;
  return true;
}

bool ShmConnection::notice_fetched() noexcept {
  // A reader that claims to have fetched more than there was only harms itself.
  const std::uint64_t fetched = std::min(out_.fetched.load(std::memory_order_acquire), announced_);
  if (fetched <= fetched_seen_) return false;
  fetched_seen_ = fetched;
  while (to_fetch_begin_ < to_fetch_end_) {
    const ToFetch& oldest = to_fetch_[to_fetch_begin_ % kRequestsPerDirection];
    if (oldest.last_part > fetched) break;
    ++to_fetch_begin_;
    finish_send(oldest.sequence, *outgoing_.find(oldest.sequence));
  }
  return true;
}

bool ShmConnection::receive_all() {
  TurnBudget budget;
  bool moved = false, fetched = false;
  while (!error_ && !budget.spent()) {
    const auto found = reader_.peek();
    if (!found) break;
    const Record& record = *found;
    if (record.type == RecordType::kGoodbye) {
      fail_with(Cause::kRemote,
                peer_closed(static_cast<GoodbyeReason>(record.reason), record.total, record.address),
                GoodbyeReason::kFailed);
      return moved;
    }
    if (incoming_.empty()) break;  // no receive for it yet
    PostedRequest& request = *incoming_.find(incoming_.oldest());
    const bool sound =
        record.length <= record.total &&
        (record.type == RecordType::kWhole
             ? record.length <= kLongestRecord && record.length == record.total && request.moved == 0
             : (record.type == RecordType::kPiece
                    ? record.length <= kLongestRecord
                    : record.type == RecordType::kFetch && record.length <= kFetchPart &&
                          agreed_.fetch != Fetch::kNever) &&
                   record.length > 0 && record.length <= record.total - request.moved &&
                   (request.moved == 0 || record.total == request.total));
    if (!sound) {
      fail_with(Cause::kRemote,
                fmt::format("the peer wrote a record that makes no sense (type {}, length {}, total {})",
                            static_cast<int>(record.type), record.length, record.total),
                GoodbyeReason::kMalformed);
      return moved;
    }
    if (record.total > request.size && channel_.overlong == Overlong::kError) {
      writer_.write(goodbye_record(GoodbyeReason::kTooLarge, record.total, request.size), nullptr);
      fail_with(Cause::kRemote,
                fmt::format("message {} has {} bytes, but the receive posted for it takes {} bytes",
                            incoming_.oldest(), record.total, request.size),
                GoodbyeReason::kTooLarge);
      return moved;
    }
    const std::size_t kept =
        std::min<std::size_t>(record.length, request.size - std::min(request.moved, request.size));
    if (record.type == RecordType::kFetch) {
      if (!fetch(request, record, kept)) break;
      fetched = true;
    } else {
      const bool measured = record.length >= CopyCost::kLeast;
      const TimePoint begin = measured ? now() : TimePoint();
      if (kept > 0) std::memcpy(request.data + request.moved, reader_.payload(record), kept);
      step();
      if (measured) {
        book_->out_of_ring.add(now() - begin, record.length);
        tell_costs();
      }
      request.moved += record.length;
    }
    budget.copied(record.length);
    request.total = record.total;
    reader_.pop(record);
    moved = true;
    if (request.moved == record.total) finish_receive(request);
  }
  // The peer may be asleep because it lacks room, or until what it sends is fetched.
  if (reader_.made_room() || fetched) wake_peer();
  return moved;
}

/// What the writer, which chooses the way, knows of both ends.
CopyCosts ShmConnection::costs() const noexcept {
  return {book_->into_ring.value(), book_->announcing.value(), out_.copy_cost.load(std::memory_order_relaxed),
          out_.read_cost.load(std::memory_order_relaxed),
          peer_processor() != 0 && peer_processor() == this_processor()};
}

/// Tells the writer what this end's copies cost, and where they were made.
void ShmConnection::tell_costs() noexcept {
  tell_processor();
  in_.copy_cost.store(book_->out_of_ring.value(), std::memory_order_relaxed);
  in_.read_cost.store(book_->reading.value(), std::memory_order_relaxed);
}

/// Reads the next part of the message from the sender's memory, as much of it as the receive takes; false
/// after a failure.
bool ShmConnection::fetch(PostedRequest& request, const Record& record, std::size_t length) {
  const TimePoint begin = now();
  const auto outcome = length == 0
                           ? PeerMemory::Outcome::kRead
                           : agreed_.peer.read({request.data + request.moved, length}, record.address);
  switch (outcome) {
    case PeerMemory::Outcome::kRead:
      if (length >= CopyCost::kLeast) {
        book_->reading.add(now() - begin, length);
        tell_costs();
      }
      request.moved += record.length;
      step();
      in_.fetched.store(++fetched_mine_, std::memory_order_release);
      return true;
    case PeerMemory::Outcome::kNotThePeer:
      fail_with(Cause::kRemote, "the peer vanished or closed the connection in the middle of a message",
                GoodbyeReason::kFailed);
      return false;
    case PeerMemory::Outcome::kForbidden:
      fail_with(Cause::kSystem,
                fmt::format("read {} bytes of the memory of process {}: it is not permitted any more", length,
                            agreed_.peer.process()),
                GoodbyeReason::kFailed);
      return false;
    case PeerMemory::Outcome::kUnreadable:
      break;
  }
  fail_with(
      Cause::kRemote,
      fmt::format("the peer sent a message at {:#x} of its memory, of which {} bytes cannot be read there",
                  record.address, length),
      GoodbyeReason::kMalformed);
  return false;
}

void ShmConnection::wake_peer() noexcept {
  // The fence separates publishing from the check whether the peer sleeps; the peer does the two in the
  // reverse order, so one of the two notices.
  step();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (out_.reader_sleeps.load(std::memory_order_relaxed) == 0 || out_.reader_sleeps.exchange(0) == 0) return;
  step();
  const std::byte wake{1};
  // A full control channel has a wake-up in it already.
  [[maybe_unused]] const auto sent = kernel().send(socket(), &wake, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void ShmConnection::look_at_channel() noexcept {
  // A peer sends one for each sleep. What one that sends more has left makes the channel ready again.
  std::array<std::byte, 256> wakes;
  const ssize_t got = kernel().recv(socket(), wakes.data(), wakes.size(), MSG_DONTWAIT);
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))) return;
  channel_ended_ = true;
  // What the peer wrote before its end is still delivered, including its goodbye.
  if (!reader_.has_any()) {
    fail_with(Cause::kRemote,
              "the peer vanished: its end was closed without a goodbye (did its process die?)",
              GoodbyeReason::kFailed);
  }
}

void ShmConnection::fail_with(Cause cause, std::string_view what, GoodbyeReason reason) noexcept {
  if (error_) return;
  // A peer may fetch its last message and close between two checks; then that message has arrived.
  notice_fetched();
  step();
  set_error(cause, what);
  agreed_.witness.wipe();
  step();
  if (reason != GoodbyeReason::kTooLarge) writer_.write(goodbye_record(reason), nullptr);
  // This also wakes a thread that polls, because an ended control channel is always ready.
  kernel().shutdown(socket(), SHUT_RDWR);
}

void ShmConnection::append_wait_handles(std::vector<pollfd>& handles) const {
  fall_asleep();
  step();
  in_.reader_sleeps.store(1, std::memory_order_relaxed);
  step();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const bool can_receive = reader_.has_any() && !incoming_.empty();
  const bool can_finish = std::min(out_.fetched.load(std::memory_order_acquire), announced_) > fetched_seen_;
  const bool has_room = next_ < outgoing_.posted() && may_send(*outgoing_.find(next_));
  // Records that have already come raise no event any more. The channel is then polled for writing, which is
  // always possible and so ends the sleep.
  const bool look_again = error_ || can_receive || can_finish || has_room;
  step();
  handles.push_back(channel_handle(look_again));
}

}  // namespace tombolo::transport::shm
