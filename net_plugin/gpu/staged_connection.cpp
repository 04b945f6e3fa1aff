#include "net_plugin/gpu/staged_connection.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/units.h"
#include "transport/backend.h"

namespace tombolo::net_plugin::gpu {

using transport::Outcome;

namespace {

constexpr Duration kCopyPause = std::chrono::milliseconds(1);

}  // namespace

void StagedConnection::Queue::push(Message* message) noexcept {
  message->next = nullptr;
  (first == nullptr ? first : last->next) = message;
  last = message;
}

OwnPieces::OwnPieces(std::shared_ptr<Staging> staging, std::size_t of_sends, std::size_t of_receives)
    : staging_(std::move(staging)) {
  FreePieces all;
  staging_->pool().reserve(staging_->some_gpu(), of_sends + of_receives, this, all);
  for (std::size_t i = 0; i < of_sends + of_receives; ++i) (i < of_sends ? sends : receives).put(all.take());
}

OwnPieces::~OwnPieces() {
  for (FreePieces* own : {&sends, &receives})
    while (Piece* piece = own->take()) staging_->pool().unreserve(piece);
}

StagedConnection::StagedConnection(std::unique_ptr<transport::Connection> beneath, Directions directions,
                                   std::shared_ptr<Staging> staging, Log log, transport::Overlong overlong)
    : StagedConnection(
          std::move(beneath), directions,
          std::make_shared<OwnPieces>(staging, directions != Directions::kReceive ? kOwnPieces : 0,
                                      directions != Directions::kSend ? kOwnPieces : 0),
          staging, std::move(log), overlong) {}

StagedConnection::StagedConnection(std::unique_ptr<transport::Connection> beneath,
                                   std::shared_ptr<OwnPieces> own, std::shared_ptr<Staging> staging, Log log,
                                   transport::Overlong overlong)
    : StagedConnection(std::move(beneath), Directions::kBoth, std::move(own), std::move(staging),
                       std::move(log), overlong) {}

StagedConnection::StagedConnection(std::unique_ptr<transport::Connection> beneath, Directions directions,
                                   std::shared_ptr<OwnPieces> own, std::shared_ptr<Staging> staging, Log log,
                                   transport::Overlong overlong)
    : beneath_(std::move(beneath)),
      own_(std::move(own)),
      staging_(std::move(staging)),
      log_(std::move(log)),
      overlong_(overlong),
      route_(beneath_->route()),
      description_("staged " + transport::describe(route_.transport, route_, {})),
      texts_(description_) {
  route_.reason += fmt::format("{}GPU memory staged by pieces of {} bytes", route_.reason.empty() ? "" : "; ",
                               kPieceBytes);
  sends_.own = &own_->sends;
  receives_.own = &own_->receives;
  if (directions != Directions::kReceive) open(sends_, true);
  if (directions != Directions::kSend) open(receives_, false);
  expect_pieces();
}

void StagedConnection::open(Stream& stream, bool is_send) {
  stream.messages = std::vector<Message>(transport::kRequestsPerDirection);
  for (Message& message : stream.messages) {
    message.is_send = is_send;
    message.next = stream.free;
    stream.free = &message;
  }
}

StagedConnection::~StagedConnection() {
  if (generation_ != transport::fork_generation()) return;
  // The transport first: until it is gone it may read and write the pieces.
  drain_copies();
  beneath_.reset();
  close(sends_, true);
  close(receives_, true);
}

/// Gives the copies under way a bounded time, asking for them again and again.
void StagedConnection::drain_copies() noexcept {
  const Deadline deadline = Deadline::after(staging_->copy_time());
  const auto any = [this](Stream& stream) {
    bool under_way = false;
    for (std::uint64_t number = stream.oldest; number < stream.end; ++number)
      under_way |= copy_of(stream.at(number)) == Copy::State::kUnderWay;
    return under_way;
  };
  while ((any(sends_) || any(receives_)) && !deadline.passed()) std::this_thread::sleep_for(kCopyPause);
}

void StagedConnection::close(Stream& stream, bool wait) noexcept {
  for (; stream.oldest < stream.end; ++stream.oldest) {
    Slot& slot = stream.at(stream.oldest);
    if (slot.piece == nullptr) continue;
    if (wait && copy_of(slot) == Copy::State::kUnderWay) {
      const auto warn = [&] {
        log_.warning(
            "the connection to {} is closed while a copy of {} bytes {} GPU {} has been under way for more "
            "than {}; the memory that it uses is left to it",
            route_.peer_host, slot.bytes, slot.message->is_send ? "from" : "to", slot.copier->gpu().ordinal(),
            format_seconds(to_seconds(staging_->copy_time())));
      };
      // A line that cannot be written is missing, and that is all.
      transport::guarded(warn, [](Cause, std::string_view) noexcept {});
      staging_->pool().give_up(slot.piece);
      continue;
    }
    put(stream, slot.piece);
  }
}

std::unique_ptr<transport::Memory> StagedConnection::register_memory(std::span<std::byte> buffer,
                                                                     transport::MemoryKind kind) {
  if (kind == transport::MemoryKind::kHost)
    return std::make_unique<StagedMemory>(beneath_->register_memory(buffer, kind), nullptr);
  std::string note;
  Copier& copier = staging_->copier_of(buffer.data(), &note);
  if (!note.empty()) log_.warning("{}", note);
  return std::make_unique<StagedMemory>(nullptr, &copier);
}

std::unique_ptr<transport::Memory> StagedConnection::register_dma_buf(std::span<std::byte> range, int,
                                                                      std::uint64_t) {
  return register_memory(range, transport::MemoryKind::kCuda);
}

transport::Request* StagedConnection::post_send(std::span<const std::byte> data,
                                                transport::Memory* memory) noexcept {
  // It is never written through.
  transport::Request* posted = post(sends_, const_cast<std::byte*>(data.data()), data.size(), memory);
  if (posted != nullptr) {
    cut_sends();
    hand_over_sends();
  } else if (failed()) {
    take_arrivals();  // behind which error() says so
  }
  return posted;
}

transport::Request* StagedConnection::post_receive(std::span<std::byte> buffer,
                                                   transport::Memory* memory) noexcept {
  transport::Request* posted = post(receives_, buffer.data(), buffer.size(), memory);
  if (posted != nullptr) expect_pieces();
  return posted;
}

transport::Request* StagedConnection::post(Stream& stream, std::byte* data, std::size_t size,
                                           const transport::Memory* memory) noexcept {
  TOMBOLO_CHECK(!stream.messages.empty());  // the direction for which it was made
  Message* message = stream.free;
  // A receive takes what came before the transport failed.
  if (message == nullptr || (failed() && !(&stream == &receives_ && may_bring()))) return nullptr;
  stream.free = message->next;
  message->state = Message::State::kPosted;
  message->whole = false;
  message->data = data;
  message->size = size;
  message->moved = 0;
  message->memory = static_cast<const StagedMemory*>(memory);
  message->pieces = message->copies = 0;
  stream.queue.push(message);
  return message;
}

Outcome StagedConnection::test(transport::Request* request, std::size_t& bytes) noexcept {
  auto& message = *static_cast<Message*>(request);
  if (message.state != Message::State::kDone) progress();
  const bool done = message.state == Message::State::kDone;
  if (!done && !is_lost(message)) return Outcome::kPending;
  Stream& stream = message.is_send ? sends_ : receives_;
  bytes = done ? message.moved : 0;
  message.state = Message::State::kFree;
  message.next = stream.free;
  stream.free = &message;
  return done ? Outcome::kDone : Outcome::kFailed;
}

/// Whether nothing can end the message any more, and no copy touches its buffer, so that this is the caller's
/// again.
bool StagedConnection::is_lost(const Message& message) const noexcept {
  if (error() == nullptr || message.copies > 0) return false;
  return error_ || message.is_send || (receives_.over && !message.whole);
}

bool StagedConnection::progress() noexcept {
  asked_beneath_ = false;
  bool moved = retire_sends();
  moved |= retire_receives();
  moved |= take_arrivals();
  moved |= cut_sends();
  moved |= hand_over_sends();
  moved |= expect_pieces();
  if (!asked_beneath_ && !failed()) moved |= beneath_->progress();
  return moved;
}

void StagedConnection::append_wait_handles(std::vector<pollfd>& handles) const {
  beneath_->append_wait_handles(handles);
}

const Error* StagedConnection::error() const noexcept {
  if (error_) return &*error_;
  // It comes behind the messages that wait for their receives.
  return may_bring() && receives_.queue.first == nullptr ? nullptr : beneath_->error();
}

transport::Statistics StagedConnection::statistics() const noexcept {
  transport::Statistics all = beneath_->statistics();
  all.messages_sent = sends_.messages_done;  // beneath they are pieces
  all.messages_received = receives_.messages_done;
  return all;
}

Piece* StagedConnection::take(Stream& stream, bool shared_too) noexcept {
  Piece* piece = stream.own->take();
  if (piece == nullptr && shared_too) piece = staging_->pool().take();
  if (piece != nullptr) piece->copy.state.store(Copy::State::kNone, std::memory_order_relaxed);
  return piece;
}

void StagedConnection::put(Stream& stream, Piece* piece) noexcept {
  if (piece->owner == own_.get()) {
    stream.own->put(piece);
  } else {
    staging_->pool().put(piece);
  }
}

/// The state of the slot's copy, after asking for it.
Copy::State StagedConnection::copy_of(Slot& slot) noexcept {
  if (slot.state != PieceState::kCopyingOut && slot.state != PieceState::kCopyingIn)
    return Copy::State::kNone;
  Copy& copy = slot.piece->copy;
  if (copy.state.load(std::memory_order_acquire) == Copy::State::kUnderWay) slot.copier->look();
  return copy.state.load(std::memory_order_acquire);
}

void StagedConnection::finish_if_over(Stream& stream, Message& message) noexcept {
  if (!message.whole || message.pieces > 0) return;
  message.state = Message::State::kDone;
  ++stream.messages_done;
}

void StagedConnection::fail_by(Cause cause, std::string_view text) noexcept {
  if (!error_) error_.emplace(texts_.error(cause, {description_, ": ", text}));
}

}  // namespace tombolo::net_plugin::gpu
