// NCCL's net plugin interface, declared for this plugin. The folder abi/ owns what NCCL defines and nothing
// else: types, members, constants and their order carry NCCL's names, so that a net_vN.h here can be read
// beside NCCL's own. This file holds what all versions share, net_vN.h what one version adds.
// nccl_h_test.cpp and nccl_net_h_test.cpp compare all of it with NCCL's headers where they are installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tombolo::net_plugin::abi {

/// The values that a plugin returns.
enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
};

/// Size of the handle that NCCL carries from the listening to the connecting rank.
inline constexpr std::size_t NCCL_NET_HANDLE_MAXSIZE = 128;
/// Requests that NCCL may have in flight on a comm, for each grouped receive (8 up to v6, 32 since v7).
inline constexpr int NCCL_NET_MAX_REQUESTS = 32;

/// Kinds of memory: bits of ptrSupport, and the type that regMr gets.
inline constexpr int NCCL_PTR_HOST = 1;
inline constexpr int NCCL_PTR_CUDA = 2;
inline constexpr int NCCL_PTR_DMABUF = 4;

/// NCCL presets irecv's *request to this value where it does not need the completion (LL protocol).
inline constexpr int NCCL_NET_OPTIONAL_RECV_COMPLETION = 1;

/// The values of fields that are not set.
inline constexpr int NCCL_NET_TRAFFIC_CLASS_UNDEF = -1;
inline constexpr int NCCL_NET_ATTR_UNDEF = -1;
inline constexpr int NCCL_NET_ID_UNDEF = -1;

enum ncclNetDeviceType {
  NCCL_NET_DEVICE_HOST = 0,  ///< no device offload
  NCCL_NET_DEVICE_UNPACK = 1,
};

/// Describes a connection to device code (v7 and later). Tombolo offloads nothing and leaves it null.
struct ncclNetDeviceHandle_v7_t {
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
  void* handle;
  std::size_t size;
  int needsProxyProgress;
};
using ncclNetDeviceHandle_v8_t = ncclNetDeviceHandle_v7_t;
using ncclNetDeviceHandle_v9_t = ncclNetDeviceHandle_v8_t;
using ncclNetDeviceHandle_v10_t = ncclNetDeviceHandle_v9_t;
using ncclNetDeviceHandle_v11_t = ncclNetDeviceHandle_v10_t;
using ncclNetDeviceHandle_v12_t = ncclNetDeviceHandle_v11_t;

static_assert(sizeof(ncclNetDeviceHandle_v7_t) == 32);

enum ncclDebugLogLevel {
  NCCL_LOG_NONE = 0,
  NCCL_LOG_VERSION = 1,
  NCCL_LOG_WARN = 2,
  NCCL_LOG_INFO = 3,
  NCCL_LOG_ABORT = 4,
  NCCL_LOG_TRACE = 5,
};

/// Bits that say which part of NCCL a line belongs to. NCCL_DEBUG=INFO alone shows lines that carry
/// NCCL_INIT.
enum ncclDebugLogSubSys {
  NCCL_INIT = 0x1,
  NCCL_NET = 0x10,
  NCCL_ALL = ~0,
};

/// Takes a format like printf's, filters by NCCL_DEBUG and NCCL_DEBUG_SUBSYS itself, and may be called from
/// any thread.
using ncclDebugLogger_t = void (*)(ncclDebugLogLevel level, unsigned long flags, const char* file, int line,
                                   const char* fmt, ...);

/// Records network events in NCCL's profiler (v10 and later); net_events.h says how they are described.
/// `phandle` must not be null at a start, and is not read otherwise.
using ncclProfilerCallback_t = ncclResult_t (*)(void** eHandle, int type, void* phandle,
                                                std::int64_t pluginId, void* extData);

}  // namespace tombolo::net_plugin::abi
