// Values that all versions of NCCL's interface of one-sided operations share.
#pragma once

#include <cstdint>

namespace tombolo::net_plugin::abi {

/// What a signal does to its word of 64 bits: adds one, or adds the value.
inline constexpr std::uint32_t NCCL_NET_SIGNAL_OP_INC = 1;
inline constexpr std::uint32_t NCCL_NET_SIGNAL_OP_ADD = 2;

/// Bits of mrFlags: writes to this memory keep their order; its signals are never set back.
inline constexpr std::uint64_t NCCL_NET_MR_FLAG_FORCE_SO = 1;
inline constexpr std::uint64_t NCCL_NET_MR_FLAG_SIGNAL_NEVER_RESET = 2;

}  // namespace tombolo::net_plugin::abi
