// What NCCL says by setNetAttr about the connections that it will make next.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "net_plugin/abi/net_v11.h"

namespace tombolo::net_plugin {

/// The last values that NCCL has set. Any thread may set and read them at any time without waiting, because
/// NCCL sets them from its service and its progress threads, on a context that communicators share. A reader
/// beside a writer may see some values of each.
class NetAttributes {
 public:
  /// True where a value has changed.
  bool set(const abi::ncclNetAttr_v11_t& attributes) noexcept;
  abi::ncclNetAttr_v11_t get() const noexcept;

 private:
  struct Direction {
    std::atomic<std::int32_t> most_peers{abi::NCCL_NET_ATTR_UNDEF}, least_peers{abi::NCCL_NET_ATTR_UNDEF};
    std::atomic<std::int32_t> most_flows{abi::NCCL_NET_ATTR_UNDEF}, least_flows{abi::NCCL_NET_ATTR_UNDEF};

    bool set(const abi::ncclNetCommAttr_v11_t& attributes) noexcept;
    abi::ncclNetCommAttr_v11_t get() const noexcept;
  };

  static constexpr auto kUndefined = static_cast<std::uint32_t>(abi::NCCL_NET_ATTR_UNDEF);
  Direction send_, receive_;
  std::atomic<std::uint32_t> operation_{kUndefined}, algorithm_{kUndefined}, protocol_{kUndefined};
};

/// "sends to 1 to 4 peers over 2 connections each, receives from ..., operations 0x3, ...", for the log.
std::string describe(const abi::ncclNetAttr_v11_t& attributes);

}  // namespace tombolo::net_plugin
