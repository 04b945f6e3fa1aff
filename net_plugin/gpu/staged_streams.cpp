// The two streams of a staged connection: how its pieces get from state to state.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "net_plugin/gpu/staged_connection.h"

namespace tombolo::net_plugin::gpu {

using transport::Outcome;

namespace {

std::string copy_failed(const Copier& copier, bool is_send, const Copy& copy, std::size_t bytes) {
  return fmt::format("copy {} bytes {} GPU {}: {}", bytes, is_send ? "from" : "to", copier.gpu().ordinal(),
                     copier.describe(copy.result));
}

}  // namespace

/// Ends the oldest pieces that the transport has done with, also before it failed; of others only the copies
/// then.
bool StagedConnection::retire_sends() noexcept {
  if (failed()) {
    for (std::uint64_t number = sends_.next; number < sends_.end; ++number) {
      Slot& slot = sends_.at(number);
      if (slot.state != PieceState::kCopyingOut || copy_of(slot) == Copy::State::kUnderWay) continue;
      slot.state = PieceState::kReady;
      --slot.message->copies;
    }
  }
  bool moved = false;
  while (sends_.oldest < sends_.next && !error_ && !sends_.over) {
    Slot& slot = sends_.at(sends_.oldest);
    std::size_t bytes = 0;
    asked_beneath_ = true;
    const Outcome outcome = beneath_->test(slot.beneath, bytes);
    sends_.over = outcome == Outcome::kFailed;
    if (outcome != Outcome::kDone) break;
    if (slot.piece != nullptr) put(sends_, slot.piece);
    slot.state = PieceState::kFree;
    ++sends_.oldest;
    --slot.message->pieces;
    finish_if_over(sends_, *slot.message);
    moved = true;
  }
  return moved;
}

/// Cuts posted messages into pieces, and begins their copies.
bool StagedConnection::cut_sends() noexcept {
  bool moved = false;
  while (sends_.queue.first != nullptr && !sends_.full() && !failed()) {
    Message& message = *sends_.queue.first;
    Slot& slot = sends_.at(sends_.end);
    slot = {};
    slot.message = &message;
    slot.data = message.data + message.moved;
    slot.bytes = std::min(message.size - message.moved, kPieceBytes);
    slot.copier = message.memory != nullptr ? message.memory->copier() : nullptr;
    slot.state = PieceState::kReady;
    if (slot.copier != nullptr && slot.bytes > 0) {
      slot.piece = take(sends_, true);
      if (slot.piece == nullptr) break;
      if (!slot.copier->start(Copier::Way::kToHost, slot.piece->data, message.data + message.moved,
                              slot.bytes, slot.piece->copy)) {
        put(sends_, slot.piece);
        break;
      }
      slot.data = slot.piece->data;
      slot.state = PieceState::kCopyingOut;
      ++message.copies;
    }
    ++sends_.end;
    ++message.pieces;
    message.moved += slot.bytes;
    if (slot.bytes < kPieceBytes) {
      message.whole = true;
      sends_.queue.pop();
    }
    moved = true;
  }
  return moved;
}

/// Gives the transport the pieces whose copies are over, in order.
bool StagedConnection::hand_over_sends() noexcept {
  bool moved = false;
  for (; sends_.next < sends_.end && !failed(); ++sends_.next) {
    Slot& slot = sends_.at(sends_.next);
    if (slot.state == PieceState::kCopyingOut) {
      const Copy::State copy = copy_of(slot);
      if (copy == Copy::State::kUnderWay) break;
      if (copy == Copy::State::kFailed) {
        fail_with(Cause::kSystem,
                  [&] { return copy_failed(*slot.copier, true, slot.piece->copy, slot.bytes); });
        break;
      }
      slot.state = PieceState::kReady;
      --slot.message->copies;
    }
    const bool from_host = slot.piece == nullptr && slot.message->memory != nullptr;
    slot.beneath =
        beneath_->post_send({slot.data, slot.bytes}, from_host ? slot.message->memory->beneath() : nullptr);
    if (slot.beneath == nullptr) break;
    slot.state = PieceState::kSending;
    moved = true;
  }
  return moved;
}

/// Ends the oldest pieces whose copies are over.
bool StagedConnection::retire_receives() noexcept {
  bool moved = false;
  while (receives_.oldest < receives_.next) {
    Slot& slot = receives_.at(receives_.oldest);
    if (slot.state == PieceState::kCopyingIn) {
      const Copy::State copy = copy_of(slot);
      if (copy == Copy::State::kUnderWay) break;
      --slot.message->copies;
      --slot.message->pieces;
      if (copy == Copy::State::kFailed) {
        fail_with(Cause::kSystem,
                  [&] { return copy_failed(*slot.copier, false, slot.piece->copy, slot.bytes); });
      } else if (!error_) {
        finish_if_over(receives_, *slot.message);
      }
    }
    put(receives_, slot.piece);
    slot.state = PieceState::kFree;
    ++receives_.oldest;
    moved = true;
  }
  return moved;
}

/// Puts what has come where it belongs, as far as receives are posted; also what came before the transport
/// failed, as it does where the peer closes behind its last message.
bool StagedConnection::take_arrivals() noexcept {
  bool moved = false;
  for (; receives_.next < receives_.end && !error_ && !receives_.over; ++receives_.next) {
    Slot& slot = receives_.at(receives_.next);
    if (slot.state == PieceState::kReceiving) {
      asked_beneath_ = true;
      if (const Outcome outcome = beneath_->test(slot.beneath, slot.bytes); outcome != Outcome::kDone) {
        receives_.over = outcome == Outcome::kFailed;
        break;
      }
      slot.state = PieceState::kArrived;
    }
    if (receives_.queue.first == nullptr || !place(slot)) break;
    moved = true;
  }
  if (receives_.next == receives_.end && beneath_->error() != nullptr) receives_.over = true;
  return moved;
}

/// Begins the copy of a piece into the oldest posted message. False where that must wait, or has failed.
bool StagedConnection::place(Slot& slot) noexcept {
  Message& message = *receives_.queue.first;
  const std::size_t kept = std::min(slot.bytes, message.size - message.moved);
  if (kept < slot.bytes && overlong_ == transport::Overlong::kError) {
    fail_with(Cause::kRemote, [&] {
      return fmt::format(
          "the peer sent a message of at least {} bytes, but the receive posted for it takes {} bytes",
          message.moved + slot.bytes, message.size);
    });
    return false;
  }
  std::byte* to = message.data + message.moved;
  slot.message = &message;
  // The memory of an empty message is not asked for: the owner may have had it elsewhere meanwhile
  // (transport/routing/failover_retiring.cpp), and ended it.
  slot.copier = kept > 0 && message.memory != nullptr ? message.memory->copier() : nullptr;
  slot.state = PieceState::kFree;
  if (kept > 0 && slot.copier == nullptr) std::memcpy(to, slot.piece->data, kept);
  if (kept > 0 && slot.copier != nullptr) {
    if (!slot.copier->start(Copier::Way::kToDevice, slot.piece->data, to, kept, slot.piece->copy)) {
      slot.state = PieceState::kArrived;
      return false;
    }
    slot.state = PieceState::kCopyingIn;
    ++message.copies;
    ++message.pieces;
  }
  message.moved += kept;
  if (slot.bytes < kPieceBytes) {
    message.whole = true;
    receives_.queue.pop();
    finish_if_over(receives_, message);
  }
  return true;
}

/// Of the oldest message of the stream. A copy is under way, or finds the budget used up by others. It never
/// waits for the pool: a connection's own pieces move it however empty that is.
transport::WaitsFor StagedConnection::waits_for(const Stream& stream) noexcept {
  using transport::WaitsFor;
  const WaitsFor of_queue = stream.queue.first != nullptr ? WaitsFor::kGpuCopy : WaitsFor::kStagedPiece;
  if (stream.oldest == stream.end) return of_queue;
  switch (stream.slots[stream.oldest % kMostPieces].state) {
    case PieceState::kCopyingOut:
    case PieceState::kCopyingIn:
      return WaitsFor::kGpuCopy;
    case PieceState::kArrived:
      return of_queue;
    default:
      return WaitsFor::kStagedPiece;
  }
}

/// Pieces that the posted receives may still take, as far as that matters.
std::size_t StagedConnection::pieces_wanted() const noexcept {
  std::size_t wanted = 0;
  for (const Message* message = receives_.queue.first; message != nullptr && wanted < kMostPieces;
       message = message->next)
    wanted += (message->size - message->moved) / kPieceBytes + 1;
  return wanted;
}

/// Posts receives for the pieces to come: as many as the connection owns, and more while messages want them.
bool StagedConnection::expect_pieces() noexcept {
  bool moved = false;
  const std::size_t wanted = pieces_wanted();
  while (!receives_.full() && !failed()) {
    Piece* piece = take(receives_, receives_.end - receives_.next < wanted);
    if (piece == nullptr) break;
    Slot& slot = receives_.at(receives_.end);
    slot = {};
    slot.piece = piece;
    slot.beneath = beneath_->post_receive({piece->data, kPieceBytes}, nullptr);
    if (slot.beneath == nullptr) {
      put(receives_, piece);
      break;
    }
    slot.state = PieceState::kReceiving;
    ++receives_.end;
    moved = true;
  }
  return moved;
}

}  // namespace tombolo::net_plugin::gpu
