#include "net_plugin/rma/transfer.h"

#include <cstring>
#include <thread>

namespace tombolo::net_plugin::rma {

using gpu::Copier;
using gpu::Copy;
using transport::Outcome;

CopyPieces::~CopyPieces() {
  while (gpu::Piece* piece = free_.take()) staging_->pool().unreserve(piece);
}

void CopyPieces::provide() {
  if (provided_) return;
  staging_->pool().reserve(staging_->some_gpu(), kPieces, this, free_);
  provided_ = true;
}

void Transfer::stop() noexcept {
  if (state_ == State::kCopying) {
    // What it copies to the host is no longer wanted, and there may be nothing to take it.
    host_ = piece_->data;
    const Deadline deadline = Deadline::after(pieces_.staging().copy_time());
    while (poll() == Outcome::kPending && !deadline.passed())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (piece_ != nullptr) pieces_.give_up(piece_);
  } else if (piece_ != nullptr) {
    pieces_.put(piece_);
  }
  piece_ = nullptr;
  state_ = State::kIdle;
}

void Transfer::read(const Window& from, std::uint64_t offset, std::span<std::byte> to) noexcept {
  if (to.empty()) return;
  if (from.copier == nullptr) {
    std::memcpy(to.data(), from.at(offset), to.size());
    return;
  }
  way_ = Copier::Way::kToHost;
  copier_ = from.copier;
  device_ = from.at(offset);
  host_ = to.data();
  bytes_ = to.size();
  state_ = State::kWanted;
}

void Transfer::write(const Window& to, std::uint64_t offset, std::span<const std::byte> from) noexcept {
  if (from.empty()) return;
  if (to.copier == nullptr) {
    std::memcpy(to.at(offset), from.data(), from.size());
    return;
  }
  way_ = Copier::Way::kToDevice;
  copier_ = to.copier;
  device_ = to.at(offset);
  host_ = const_cast<std::byte*>(from.data());  // it is only read
  bytes_ = from.size();
  state_ = State::kWanted;
}

bool Transfer::start() noexcept {
  if (piece_ == nullptr) {
    piece_ = pieces_.take();
    if (piece_ == nullptr) return false;
    if (way_ == Copier::Way::kToDevice) std::memcpy(piece_->data, host_, bytes_);
  }
  if (!copier_->start(way_, piece_->data, device_, bytes_, piece_->copy)) return false;
  state_ = State::kCopying;
  return true;
}

Outcome Transfer::poll() noexcept {
  if (state_ == State::kIdle) return Outcome::kDone;
  if (state_ == State::kWanted && !start()) return Outcome::kPending;
  Copy& copy = piece_->copy;
  if (copy.state.load(std::memory_order_acquire) == Copy::State::kUnderWay) copier_->look();
  const Copy::State reached = copy.state.load(std::memory_order_acquire);
  if (reached == Copy::State::kUnderWay) return Outcome::kPending;
  const bool done = reached == Copy::State::kDone;
  if (done && way_ == Copier::Way::kToHost && host_ != piece_->data) std::memcpy(host_, piece_->data, bytes_);
  pieces_.put(piece_);
  piece_ = nullptr;
  state_ = State::kIdle;
  return done ? Outcome::kDone : Outcome::kFailed;
}

}  // namespace tombolo::net_plugin::rma
