#include "transport/rdma/memory.h"

namespace tombolo::transport::rdma {

RdmaMemory::RdmaMemory(std::vector<std::shared_ptr<Device>> devices, std::span<std::byte> range,
                       MemoryKind kind)
    : devices_(std::move(devices)), range_(range), kind_(kind), shared_(kind == MemoryKind::kHost) {
  if (range.empty()) return;
  try {
    for (std::size_t i = 0; i < devices_.size(); ++i)
      registrations_[i] =
          shared_ ? devices_[i]->shared().acquire(range) : devices_[i]->add(range, Access::kGpu);
  } catch (...) {
    release();
    throw;
  }
}

RdmaMemory::RdmaMemory(std::vector<std::shared_ptr<Device>> devices, std::span<std::byte> range, int file,
                       std::uint64_t offset)
    : devices_(std::move(devices)), range_(range), kind_(MemoryKind::kCuda), shared_(false) {
  try {
    for (std::size_t i = 0; i < devices_.size(); ++i)
      registrations_[i] = devices_[i]->add_dma_buf(file, offset, range);
  } catch (...) {
    release();
    throw;
  }
}

RdmaMemory::~RdmaMemory() {
  release();
}

void RdmaMemory::release() noexcept {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (registrations_[i] == nullptr || devices_[i]->is_copy()) continue;
    if (shared_) {
      devices_[i]->shared().release(registrations_[i]);
    } else {
      devices_[i]->remove(registrations_[i]);
    }
  }
}

}  // namespace tombolo::transport::rdma
