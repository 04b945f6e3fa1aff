#include "transport/transport.h"

#include "transport/backend.h"

namespace tombolo::transport {
namespace {

class PlainMemory final : public Memory {};

}  // namespace

std::unique_ptr<Memory> HostMemoryConnection::register_memory(std::span<std::byte> buffer, MemoryKind kind) {
  if (kind != MemoryKind::kHost) {
    fail(Cause::kUnsupported,
         "register {} bytes of CUDA memory with a {} connection: it carries host memory only; copy to a host "
         "buffer first",
         buffer.size(), route().transport);
  }
  return std::make_unique<PlainMemory>();
}

std::unique_ptr<Memory> HostMemoryConnection::register_dma_buf(std::span<std::byte> range, int,
                                                               std::uint64_t) {
  fail(Cause::kUnsupported,
       "register a DMA-BUF of {} bytes with a {} connection: it carries host memory only; copy to a host "
       "buffer first",
       range.size(), route().transport);
}

std::string as_kind(const Route& route) {
  if (!topology::is_rdma(route.kind)) return {};
  return fmt::format(" over {}{}", topology::nic_kind_name(route.kind), route.emulated ? " (emulated)" : "");
}

std::string describe(std::string_view carrier, const Route& route, std::string_view peer_name) {
  return fmt::format("{} connection to {}{}host {} (NIC {} -> {} {})", carrier, peer_name,
                     peer_name.empty() ? "" : " on ", route.peer_host.empty() ? "?" : route.peer_host,
                     route.local_nic, route.peer_nic.empty() ? "?" : route.peer_nic, route.peer_address);
}

}  // namespace tombolo::transport
