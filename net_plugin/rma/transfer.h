// Copies between a window and this process's own memory. A window in host memory is copied at once; one on a
// GPU through pinned memory, by a copy that is asked for its end and never waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "net_plugin/gpu/staging.h"
#include "net_plugin/rma/window.h"
#include "transport/transport.h"

namespace tombolo::net_plugin::rma {

/// The pinned memory of one group. A piece is held only while a copy of the GPU's is under way, which ends
/// without anybody else, so that a few serve any number of connections.
class CopyPieces {
 public:
  explicit CopyPieces(std::shared_ptr<gpu::Staging> staging) : staging_(std::move(staging)) {}
  ~CopyPieces();
  CopyPieces(const CopyPieces&) = delete;
  CopyPieces& operator=(const CopyPieces&) = delete;

  /// Locks the memory, at the first call. Throws kSystem.
  void provide();
  gpu::Piece* take() noexcept { return free_.take(); }
  void put(gpu::Piece* piece) noexcept { free_.put(piece); }
  /// Leaves the piece to a copy that does not end.
  void give_up(gpu::Piece* piece) noexcept { staging_->pool().give_up(piece); }
  gpu::Staging& staging() noexcept { return *staging_; }

 private:
  static constexpr std::size_t kPieces = 4;
  std::shared_ptr<gpu::Staging> staging_;
  gpu::FreePieces free_;
  bool provided_ = false;
};

/// One copy at a time, of at most kPieceBytes. The destructor waits for a copy of the GPU's that is under
/// way, for a bounded time. Used under its group's lock.
class Transfer {
 public:
  explicit Transfer(CopyPieces& pieces) noexcept : pieces_(pieces) {}
  ~Transfer() { stop(); }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  /// The range lies in the window. `to` must live until poll() answers something else than kPending.
  void read(const Window& from, std::uint64_t offset, std::span<std::byte> to) noexcept;
  void write(const Window& to, std::uint64_t offset, std::span<const std::byte> from) noexcept;
  /// kFailed where CUDA refuses.
  transport::Outcome poll() noexcept;
  /// Gives the copy up. Waits as the destructor does.
  void stop() noexcept;

 private:
  enum class State : std::uint8_t { kIdle, kWanted, kCopying };

  bool start() noexcept;

  CopyPieces& pieces_;
  State state_ = State::kIdle;
  gpu::Copier::Way way_ = gpu::Copier::Way::kToHost;
  gpu::Copier* copier_ = nullptr;
  std::byte* device_ = nullptr;
  std::byte* host_ = nullptr;
  std::size_t bytes_ = 0;
  gpu::Piece* piece_ = nullptr;
};

}  // namespace tombolo::net_plugin::rma
