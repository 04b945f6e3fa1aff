// NCCL's memory handle: a buffer, registered with each lane of its comm that carries it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/descriptor.h"
#include "net_plugin/comms/lanes.h"
#include "transport/transport.h"

namespace tombolo::net_plugin {

/// Used by one thread at a time, but by any number where it is of host memory and the carrier needs no
/// registration: then it serves every comm of the device. Must end, or drop(), before the lanes.
class Registration {
 public:
  /// Registers memory with the comm's first connection; with the other lanes when they carry it first. Throws
  /// kUnsupported, with the reason, where the connection does not carry that kind.
  Registration(std::span<std::byte> buffer, transport::Connection& first,
               transport::MemoryKind kind = transport::MemoryKind::kHost);
  /// The same for GPU memory that was exported as DMA-BUF. Throws kUnsupported, with the reason, where the
  /// connection cannot carry it. `file` stays the caller's.
  Registration(std::span<std::byte> range, int file, std::uint64_t offset, transport::Connection& first);

  /// The registration with that lane, which must be open. Throws as Connection::register_memory() does where
  /// it has to be made. Null for memory that needs none.
  transport::Memory* on(Lane& lane) {
    if (everywhere_) return nullptr;
    last_ = &lane;
    if (lane.index < by_lane_.size() && by_lane_[lane.index]) return by_lane_[lane.index].get();
    return add(lane.index, *lane.connection);
  }
  /// The lane that carried it last; null where none did.
  Lane* last() const noexcept { return last_; }
  bool of_gpu() const noexcept { return kind_ == transport::MemoryKind::kCuda; }
  /// Ends all of it.
  void drop() noexcept { by_lane_.clear(); }

 private:
  struct DmaBuf {
    Descriptor file;
    std::uint64_t offset = 0;
  };
  transport::Memory* add(std::size_t index, transport::Connection& connection);

  std::span<std::byte> buffer_;
  transport::MemoryKind kind_;
  bool everywhere_ = false;  ///< any comm may carry it
  std::optional<DmaBuf> dma_buf_;
  std::vector<std::unique_ptr<transport::Memory>> by_lane_;
  Lane* last_ = nullptr;
};

}  // namespace tombolo::net_plugin
