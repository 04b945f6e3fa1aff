#include "transport/shm/connection.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/error.h"

namespace tombolo::transport::shm {
namespace {

// From this size on, one copy by the kernel costs less than two through the ring.
constexpr std::size_t kFetchFrom = 32 * 1024;
// The kernel pins pages for a fetch. Pieces of this size stay in the cache, and let other work proceed
// between them.
constexpr std::size_t kFetchPiece = 512 * 1024;
constexpr int kPiecesPerTurn = 4;

std::uint32_t pieces_of(std::size_t size) noexcept {
  return static_cast<std::uint32_t>((size + kFetchPiece - 1) / kFetchPiece);
}

Record goodbye_record(GoodbyeReason reason, std::uint64_t size = 0, std::uint64_t capacity = 0) noexcept {
  return {0, RecordType::kGoodbye, static_cast<std::uint16_t>(reason), 0, size, capacity};
}

}  // namespace

bool fetchable(std::span<const std::byte> data) noexcept {
  // The test costs one system call, a hundredth of the copy that it decides on.
  std::array<std::byte, 2> got;
  iovec mine{got.data(), got.size()};
  const std::array<iovec, 2> ends{iovec{const_cast<std::byte*>(&data.front()), 1},
                                  iovec{const_cast<std::byte*>(&data.back()), 1}};
  return process_vm_readv(getpid(), &mine, 1, ends.data(), ends.size(), 0) == std::ssize(got);
}

ShmConnection::ShmConnection(channel::ControlChannel channel, Agreed agreed)
    : ChannelConnection(std::move(channel), "shm"),
      agreed_(std::move(agreed)),
      out_(agreed_.mapping->rings[channel_.connecting ? 0 : 1]),
      in_(agreed_.mapping->rings[channel_.connecting ? 1 : 0]),
      writer_(out_),
      reader_(in_) {}

ShmConnection::~ShmConnection() {
  withdraw();
  // This comes first: bytes that the peer fetches after it may no longer be those that were sent.
  out_.writer_closed.store(1, std::memory_order_seq_cst);
  if (!error_) writer_.write(goodbye_record(GoodbyeReason::kClosed), nullptr);
  shutdown(socket(), SHUT_RDWR);
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
  if (wake_up()) {
    in_.reader_sleeps.store(0, std::memory_order_relaxed);
    look_at_channel();  // the wake-ups there
    if (error_) return true;
  }
  bool moved = next_ < outgoing_.posted() && send_all();
  if (!outgoing_.empty()) {
    if (fetched_seen_ < to_fetch_end_) moved |= help_fetching();
    moved |= notice_fetched();
  }
  if (!error_) moved |= receive_all();
  if (!count_turn(moved) || error_) return moved;
  look_at_channel();
  if (error_) return moved;
  if (const std::string why = stalled(); !why.empty())
    fail_with(Cause::kTimeout, why, GoodbyeReason::kTimeout);
  return moved;
}

bool ShmConnection::send_all() noexcept {
  bool moved = false;
  while (next_ < outgoing_.posted() && send_one(*outgoing_.find(next_))) moved = true;
  if (moved) wake_peer();
  return moved;
}

/// Writes one record of the message; false where the ring is full.
bool ShmConnection::send_one(PostedRequest& request) noexcept {
  const std::uint64_t sequence = next_;
  if (agreed_.fetch && next_offset_ == 0 && request.size > kFetchFrom &&
      fetchable({request.data, request.size})) {
    const auto address = reinterpret_cast<std::uint64_t>(request.data);
    if (!writer_.write({0, RecordType::kFetch, 0, 0, request.size, address}, nullptr)) return false;
    to_fetch_[to_fetch_end_++ % kRequestsPerDirection] = sequence;
    ++next_;
    return true;
  }
  const std::size_t length = std::min(request.size - next_offset_, kLongestRecord);
  const bool whole = length == request.size;
  if (!writer_.write({0, whole ? RecordType::kWhole : RecordType::kPiece, 0, length, request.size, 0},
                     request.data + next_offset_)) {
    return false;
  }
  next_offset_ += length;
  if (next_offset_ < request.size) return true;
  next_offset_ = 0;
  ++next_;
  finish_send(sequence, request);
  return true;
}

bool ShmConnection::notice_fetched() noexcept {
  const std::uint64_t fetched = out_.fetched.load(std::memory_order_acquire);
  bool moved = false;
  while (fetched_seen_ < fetched && fetched_seen_ < to_fetch_end_) {
    const std::uint64_t sequence = to_fetch_[fetched_seen_++ % kRequestsPerDirection];
    finish_send(sequence, *outgoing_.find(sequence));
    moved = true;
  }
  return moved;
}

bool ShmConnection::receive_all() noexcept {
  bool moved = false, fetched = false;
  while (!error_) {
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
        record.length <= kLongestRecord && record.length <= record.total &&
        (record.type == RecordType::kWhole ? record.length == record.total && request.moved == 0
         : record.type == RecordType::kPiece
             ? record.length <= record.total - std::min<std::uint64_t>(record.total, request.moved) &&
                   record.length > 0 && (request.moved == 0 || record.total == request.total)
             : record.type == RecordType::kFetch && agreed_.fetch && request.moved == 0);
    if (!sound) {
      fail_with(Cause::kRemote,
                fmt::format("the peer wrote a record that makes no sense (type {}, length {}, total {})",
                            static_cast<int>(record.type), record.length, record.total),
                GoodbyeReason::kMalformed);
      return moved;
    }
    if (record.total > request.size) {
      writer_.write(goodbye_record(GoodbyeReason::kTooLarge, record.total, request.size), nullptr);
      fail_with(Cause::kRemote,
                fmt::format("message {} has {} bytes, but the receive posted for it takes {} bytes",
                            incoming_.oldest(), record.total, request.size),
                GoodbyeReason::kTooLarge);
      return moved;
    }
    if (record.type == RecordType::kFetch) {
      const Fetched now = fetch(record, request);
      fetched |= now != Fetched::kNothing;
      if (now != Fetched::kAll) break;
      continue;
    }
    if (record.length > 0) std::memcpy(request.data + request.moved, reader_.payload(), record.length);
    request.moved += record.length;
    request.total = record.total;
    reader_.pop(record);
    moved = true;
    if (request.moved == record.total) finish_receive(request);
  }
  // The peer may be asleep because it lacks room, or until what it sends is fetched.
  if (reader_.made_room() || fetched) wake_peer();
  return moved;
}

ShmConnection::Fetched ShmConnection::fetch(const Record& record, PostedRequest& request) noexcept {
  Pieces& shared = in_.pieces;
  const std::uint64_t number = fetched_mine_ + 1;
  const std::uint32_t count = pieces_of(record.total);
  if (!fetching_) {
    fetching_ = true;
    pieces_ = 0;
    written_ = shared.written.load(std::memory_order_acquire);
    shared.address.store(reinterpret_cast<std::uint64_t>(request.data), std::memory_order_relaxed);
    shared.taken.store(number << 32, std::memory_order_release);
    if (count > 1 && fetchable({request.data, record.total}))
      shared.message.store(number, std::memory_order_release);
  }
  bool moved = false;
  for (int turn = 0; turn < kPiecesPerTurn; ++turn) {
    const auto piece = shared.take(number, count);
    if (!piece) break;
    const std::size_t begin = *piece * kFetchPiece;
    const std::size_t end = std::min<std::size_t>(record.total, begin + kFetchPiece);
    for (std::size_t at = begin; at < end;) {
      iovec mine{request.data + at, end - at};
      iovec theirs{reinterpret_cast<void*>(record.address + at), end - at};
      const ssize_t got = process_vm_readv(static_cast<pid_t>(agreed_.peer_process), &mine, 1, &theirs, 1, 0);
      if (got <= 0) {
        copy_failed(errno, "read", end - at);
        return Fetched::kNothing;
      }
      at += static_cast<std::size_t>(got);
    }
    ++pieces_;
    moved = true;
  }
  const bool complete =
      pieces_ + (shared.written.load(std::memory_order_acquire) - written_) == std::uint64_t{count};
  if (complete || !moved) {
    // A sender that closed meanwhile may have reused the memory, and the process number of a dead one may
    // belong to another process. A peer that took a piece may have died before it copied it.
    look_at_channel();
    if (error_) return Fetched::kNothing;
    if (channel_ended_ || in_.writer_closed.load(std::memory_order_seq_cst) != 0) {
      fail_with(Cause::kRemote, "the peer vanished or closed the connection in the middle of a message",
                GoodbyeReason::kFailed);
      return Fetched::kNothing;
    }
  }
  if (!complete) return moved ? Fetched::kSome : Fetched::kNothing;
  shared.message.store(0, std::memory_order_release);
  fetching_ = false;
  request.moved = record.total;
  reader_.pop(record);
  in_.fetched.store(++fetched_mine_, std::memory_order_release);
  finish_receive(request);
  return Fetched::kAll;
}

/// Helps the peer to copy a message of this end, which otherwise could only wait.
bool ShmConnection::help_fetching() noexcept {
  Pieces& shared = out_.pieces;
  const std::uint64_t number = shared.message.load(std::memory_order_acquire);
  if (number <= fetched_seen_ || number > to_fetch_end_) return false;
  const PostedRequest& request = *outgoing_.find(to_fetch_[(number - 1) % kRequestsPerDirection]);
  bool moved = false;
  for (int turn = 0; turn < kPiecesPerTurn; ++turn) {
    const auto piece = shared.take(number, pieces_of(request.size));
    if (!piece) break;
    // The peer waits for pieces that were taken, so this is the address of the message that the piece belongs
    // to.
    const std::uint64_t address = shared.address.load(std::memory_order_relaxed);
    const std::size_t begin = *piece * kFetchPiece;
    const std::size_t end = std::min(request.size, begin + kFetchPiece);
    for (std::size_t at = begin; at < end;) {
      iovec mine{request.data + at, end - at};
      iovec theirs{reinterpret_cast<void*>(address + at), end - at};
      const ssize_t put =
          process_vm_writev(static_cast<pid_t>(agreed_.peer_process), &mine, 1, &theirs, 1, 0);
      if (put <= 0) {
        copy_failed(errno, "write", end - at);
        return false;
      }
      at += static_cast<std::size_t>(put);
    }
    shared.written.fetch_add(1, std::memory_order_release);
    moved = true;
  }
  return moved;
}

void ShmConnection::copy_failed(int error, std::string_view verb, std::size_t bytes) noexcept {
  look_at_channel();
  if (error_) return;
  if (error == ESRCH || channel_ended_ || in_.writer_closed.load(std::memory_order_seq_cst) != 0) {
    fail_with(Cause::kRemote, "the peer vanished or closed the connection in the middle of a message",
              GoodbyeReason::kFailed);
  } else {
    fail_with(Cause::kSystem,
              fmt::format("{} {} bytes of the peer's memory: {}", verb, bytes, errno_text(error)),
              GoodbyeReason::kFailed);
  }
}

/// Stops the copying of a message whose buffer is about to return to its owner: no further piece is taken,
/// and this waits until the peer has finished those that it took, unless it is dead.
void ShmConnection::withdraw() noexcept {
  if (!fetching_) return;
  fetching_ = false;
  Pieces& shared = in_.pieces;
  shared.message.store(0, std::memory_order_relaxed);
  const auto taken = static_cast<std::uint32_t>(
      shared.taken.exchange((fetched_mine_ + 1) << 32 | UINT32_MAX, std::memory_order_acq_rel));
  const auto deadline = Deadline::after(channel_.idle_timeout, *channel_.clock);
  while (pieces_ + (shared.written.load(std::memory_order_acquire) - written_) < taken &&
         !deadline.passed()) {
    std::byte any;
    const ssize_t got = recv(socket(), &any, 1, MSG_DONTWAIT | MSG_PEEK);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) return;
    std::this_thread::yield();
  }
}

void ShmConnection::wake_peer() noexcept {
  // The fence separates publishing from the check whether the peer sleeps; the peer does the two in the
  // reverse order, so one of the two notices.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (out_.reader_sleeps.load(std::memory_order_relaxed) == 0 || out_.reader_sleeps.exchange(0) == 0) return;
  const std::byte wake{1};
  // A full control channel has a wake-up in it already.
  [[maybe_unused]] const auto sent = send(socket(), &wake, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void ShmConnection::look_at_channel() noexcept {
  std::array<std::byte, 256> wakes;
  for (;;) {
    const ssize_t got = recv(socket(), wakes.data(), wakes.size(), MSG_DONTWAIT);
    if (got == std::ssize(wakes)) continue;
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))) return;
    break;
  }
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
  withdraw();
  // A peer may fetch its last message and close between two checks; then that message has arrived.
  if (!outgoing_.empty()) notice_fetched();
  set_error(cause, what);
  out_.writer_closed.store(1, std::memory_order_seq_cst);
  if (reason != GoodbyeReason::kTooLarge) writer_.write(goodbye_record(reason), nullptr);
  // This also wakes a thread that polls, because an ended control channel is always ready.
  shutdown(socket(), SHUT_RDWR);
}

void ShmConnection::append_wait_handles(std::vector<pollfd>& handles) const {
  fall_asleep();
  in_.reader_sleeps.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const bool can_receive = reader_.has_any() && !incoming_.empty();
  const bool can_finish = out_.fetched.load(std::memory_order_acquire) > fetched_seen_;
  const bool has_room = next_ < outgoing_.posted() && writer_.has_room_for(kLongestRecord);
  // Records that have already come raise no event any more. The channel is then polled for writing, which is
  // always possible and so ends the sleep.
  const bool look_again = error_ || can_receive || can_finish || has_room;
  handles.push_back(channel_handle(look_again));
}

}  // namespace tombolo::transport::shm
