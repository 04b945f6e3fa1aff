#include "net_plugin/comms/registration.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/error.h"

namespace tombolo::net_plugin {
namespace {

/// Whether a transport's connections need no registration of host memory. Those that may go over to NICs do.
bool carries_unregistered(std::string_view transport) noexcept {
  return transport == "shm" || transport.starts_with("tcp");
}

}  // namespace

Registration::Registration(std::span<std::byte> buffer, transport::Connection& first,
                           transport::MemoryKind kind)
    : buffer_(buffer),
      kind_(kind),
      everywhere_(kind == transport::MemoryKind::kHost && carries_unregistered(first.route().transport) &&
                  !first.route().resumable) {
  if (!everywhere_) add(0, first);
}

Registration::Registration(std::span<std::byte> range, int file, std::uint64_t offset,
                           transport::Connection& first)
    : buffer_(range), kind_(transport::MemoryKind::kCuda) {
  by_lane_.push_back(first.register_dma_buf(range, file, offset));
  // NCCL closes its own once this is over, and a further lane may register the memory later.
  Descriptor copy(::fcntl(file, F_DUPFD_CLOEXEC, 0));
  if (!copy) fail_errno(errno, "copy the descriptor of a DMA-BUF");
  dma_buf_.emplace(DmaBuf{std::move(copy), offset});
}

transport::Memory* Registration::add(std::size_t index, transport::Connection& connection) {
  by_lane_.resize(std::max(by_lane_.size(), index + 1));
  by_lane_[index] = dma_buf_ ? connection.register_dma_buf(buffer_, dma_buf_->file.get(), dma_buf_->offset)
                             : connection.register_memory(buffer_, kind_);
  return by_lane_[index].get();
}

}  // namespace tombolo::net_plugin
