// Memory registered with the NICs of a connection.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "transport/rdma/device.h"
#include "transport/rdma/set_up_message.h"
#include "transport/transport.h"

namespace tombolo::transport::rdma {

/// The registrations of one range, by NIC pair.
using Registrations = std::array<ibv_mr*, kMostNicPairs>;

/// The registration that register_memory() returns. It keeps the devices open, and ends when it is destroyed.
class RdmaMemory final : public Memory {
 public:
  /// Registers with each device; throws as Device::add() does. A range of no bytes needs no registration. GPU
  /// memory is registered by its address, and for this alone: the address may soon be another allocation's.
  RdmaMemory(std::vector<std::shared_ptr<Device>> devices, std::span<std::byte> range,
             MemoryKind kind = MemoryKind::kHost);
  /// Registers GPU memory exported as DMA-BUF: `file` at `offset`.
  RdmaMemory(std::vector<std::shared_ptr<Device>> devices, std::span<std::byte> range, int file,
             std::uint64_t offset);
  ~RdmaMemory() override;
  RdmaMemory(const RdmaMemory&) = delete;
  RdmaMemory& operator=(const RdmaMemory&) = delete;

  bool covers(const std::byte* data, std::size_t size) const noexcept {
    return data >= range_.data() && size <= range_.size() &&
           static_cast<std::size_t>(data - range_.data()) <= range_.size() - size;
  }
  const Registrations& registrations() const noexcept { return registrations_; }
  MemoryKind kind() const noexcept { return kind_; }

 private:
  void release() noexcept;

  std::vector<std::shared_ptr<Device>> devices_;
  std::span<std::byte> range_;
  MemoryKind kind_;
  bool shared_;
  Registrations registrations_{};
};

}  // namespace tombolo::transport::rdma
