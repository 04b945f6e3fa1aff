// The numbers of NCCL's net ABI.
#pragma once

#include <cstddef>

namespace tombolo::net_plugin::abi {

/// What every function returns; the values are those of nccl.h.
using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kSystemError = 2;
inline constexpr Result kInternalError = 3;
inline constexpr Result kInvalidArgument = 4;
inline constexpr Result kInvalidUsage = 5;
inline constexpr Result kRemoteError = 6;

/// Size of the handle that NCCL carries from the listening to the connecting rank.
inline constexpr std::size_t kHandleBytes = 128;
/// Requests that NCCL may have in flight per comm, for each grouped receive (8 up to v6, 32 since v7).
inline constexpr int kRequestsPerComm = 32;
/// Above this NCCL splits a message: the sizes that test() reports are ints, and a power of two stays
/// aligned.
inline constexpr std::size_t kLargestMessage = std::size_t{1} << 30;

/// Pointer kinds, as bits of ptrSupport and as regMr's type.
inline constexpr int kHostPointer = 1;
inline constexpr int kCudaPointer = 2;
inline constexpr int kDmaBuf = 4;

/// Value that NCCL presets in irecv's *request where it does not need the completion (LL protocol).
inline constexpr int kOptionalReceiveCompletion = 1;

/// Traffic class, rail, plane and the attributes of setNetAttr where nobody set them.
inline constexpr int kUndefined = -1;

/// netDeviceType of a plugin without device offload.
inline constexpr int kHostDevice = 0;

}  // namespace tombolo::net_plugin::abi
