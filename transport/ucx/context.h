// UCX opened over a set of devices, and memory registered with it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "transport/kernel.h"
#include "transport/transport.h"
#include "transport/ucx/ucx_functions.h"

namespace tombolo::transport::ucx {

/// Threads: any, at the same time.
class Context {
 public:
  /// `devices` is as in UCX_NET_DEVICES, `transports` as in UCX_TLS; what is empty is left to UCX. Throws
  /// kUnsupported, naming both.
  Context(std::shared_ptr<const UcxFunctions> functions, const std::string& devices,
          const std::string& transports);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const UcxFunctions& ucx() const noexcept { return *functions_; }
  ucp_context_h handle() const noexcept { return context_; }
  /// Whether a forked child holds this copy. UCX must not be asked to end it: its locks may be held by
  /// threads that the child does not have, and it shares the parent's sockets.
  bool is_copy() const noexcept { return generation_ != fork_generation(); }
  bool carries(ucs_memory_type_t type) const noexcept { return (memory_types_ >> type & 1) != 0; }

 private:
  std::shared_ptr<const UcxFunctions> functions_;
  ucp_context_h context_ = nullptr;
  std::uint64_t memory_types_ = 0;
  unsigned generation_ = fork_generation();
};

/// The registration that register_memory() returns. It keeps the context open.
class UcxMemory final : public Memory {
 public:
  /// Throws kUnsupported for GPU memory where UCX has no support for it, kSystem where it refuses.
  UcxMemory(std::shared_ptr<Context> context, std::span<std::byte> range, MemoryKind kind);
  ~UcxMemory() override;
  UcxMemory(const UcxMemory&) = delete;
  UcxMemory& operator=(const UcxMemory&) = delete;

  bool covers(const std::byte* data, std::size_t size) const noexcept {
    return data >= range_.data() && size <= range_.size() &&
           static_cast<std::size_t>(data - range_.data()) <= range_.size() - size;
  }
  ucp_mem_h handle() const noexcept { return handle_; }  ///< null for a range of no bytes
  ucs_memory_type_t type() const noexcept { return type_; }

 private:
  std::shared_ptr<Context> context_;
  std::span<std::byte> range_;
  ucs_memory_type_t type_;
  ucp_mem_h handle_ = nullptr;
};

}  // namespace tombolo::transport::ucx
