// Frames and parts on one connection: what both ends of an operation need to send and receive them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "net_plugin/rma/protocol.h"
#include "net_plugin/rma/transfer.h"
#include "net_plugin/rma/window.h"
#include "transport/transport.h"

namespace tombolo::net_plugin::rma {

/// Frames on their way. Each lies in a buffer of its own until the transport has done with it.
class FrameSender {
 public:
  struct Slot {
    std::array<std::byte, kFrameBytes> bytes;
    transport::Request* request = nullptr;
  };

  /// A buffer to be filled; the same one until post() has sent it. Null where all are under way.
  Slot* next() noexcept { return end_ - oldest_ < slots_.size() ? &slots_[end_ % slots_.size()] : nullptr; }
  /// False: try again.
  bool post(transport::Connection& connection, std::size_t bytes) noexcept;
  /// Frees what was sent. True where anything was.
  bool retire(transport::Connection& connection) noexcept;
  bool idle() const noexcept { return oldest_ == end_; }

 private:
  std::vector<Slot> slots_ = std::vector<Slot>(32);
  std::uint64_t oldest_ = 0, end_ = 0;
};

/// One frame at a time: another is expected when the owner has done with the last.
class FrameReceiver {
 public:
  /// The bytes of the frame that came; nothing while none has.
  std::optional<std::span<const std::byte>> poll(transport::Connection& connection) noexcept;
  /// The frame is of no more use.
  void done() noexcept { has_ = false; }

 private:
  std::unique_ptr<std::array<std::byte, kFrameBytes>> bytes_ =
      std::make_unique<std::array<std::byte, kFrameBytes>>();
  transport::Request* request_ = nullptr;
  std::size_t size_ = 0;
  bool has_ = false;
};

/// A range of a window as parts. Parts of host memory go straight from it, and come straight into it, several
/// under way; those of a GPU's go through a buffer, one at a time.
class Parts {
 public:
  enum class Way : std::uint8_t { kSend, kReceive };

  explicit Parts(Way way, CopyPieces& pieces) noexcept : way_(way), transfer_(pieces) {}

  /// The range lies in the window, which must stay until progress() has answered something else than
  /// kPending or the connection is gone.
  void begin(const Window& window, std::uint64_t offset, std::uint64_t bytes);
  /// kDone when all were sent and the range may be changed, or all have arrived. kFailed where CUDA refuses,
  /// or a part has another size than it must. After a failure of the connection it stays kPending.
  transport::Outcome progress(transport::Connection& connection) noexcept;
  /// Ends the copy of a GPU's that may be under way. The connection is gone.
  void stop() noexcept { transfer_.stop(); }

 private:
  struct UnderWay {
    transport::Request* request = nullptr;
    std::size_t bytes = 0;
  };
  std::size_t next_bytes() const noexcept;
  bool post(transport::Connection& connection, std::byte* data, std::size_t bytes) noexcept;
  transport::Outcome take(transport::Connection& connection) noexcept;
  transport::Outcome host(transport::Connection& connection) noexcept;
  transport::Outcome device(transport::Connection& connection) noexcept;

  enum class Step : std::uint8_t { kBegin, kCopying, kToPost, kUnderWay };

  Way way_;
  Transfer transfer_;
  const Window* window_ = nullptr;
  std::uint64_t posted_ = 0, done_ = 0, end_ = 0;  // offsets in the window
  std::array<UnderWay, 16> ring_{};
  std::uint64_t oldest_ = 0, newest_ = 0;
  Step step_ = Step::kBegin;       // of a part of a GPU's memory
  std::vector<std::byte> buffer_;  // for it
};

template <typename Frame>
void put_frame(FrameSender::Slot& slot, const Frame& frame) noexcept {
  std::memcpy(slot.bytes.data(), &frame, sizeof(frame));
}

}  // namespace tombolo::net_plugin::rma
