#include "transport/transport.h"

namespace tombolo::transport {
namespace {

class PlainMemory final : public Memory {};

}  // namespace

std::unique_ptr<Memory> Connection::register_memory(std::span<std::byte> buffer, MemoryKind kind) {
  if (kind != MemoryKind::kHost) {
    fail(Cause::kUnsupported,
         "register {} bytes of CUDA memory with a {} connection: it carries host memory only; copy to a host "
         "buffer first",
         buffer.size(), route().transport);
  }
  return std::make_unique<PlainMemory>();
}

}  // namespace tombolo::transport
