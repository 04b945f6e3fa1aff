// How NCCL's own networks describe their events to a profiler (v10 of the net interface and later). Profilers
// know these descriptions by the id that goes with them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tombolo::net_plugin::abi {

/// What the callback of init is told, its `type`. Releases before 2.27 take every value but the first for a
/// stop.
enum ncclProfilerNetEvent_t {
  ncclProfilerNetEventStart = 0,
  ncclProfilerNetEventStop = 1,
  ncclProfilerNetEventUpdate = 2,
  ncclProfilerNetEventUpdateAndStop = 3,
};

/// Ids hold a kind of network in the upper and a version in the lower half.
inline constexpr int NCCL_PROFILER_NET_VER_BITS = 16;
inline constexpr std::int64_t NCCL_PROFILER_NET_TYPE_IB = std::int64_t{1} << NCCL_PROFILER_NET_VER_BITS;
inline constexpr std::int64_t NCCL_PROFILER_NET_TYPE_SOCK = std::int64_t{2} << NCCL_PROFILER_NET_VER_BITS;

inline constexpr std::uint8_t ncclProfileQp = 1;
inline constexpr std::uint8_t ncclProfileSocket = 1;

struct ncclProfilerNetIbDescr_v1_t {
  std::uint8_t type;  ///< ncclProfileQp
  struct {
    int device;
    std::uint64_t wr_id;
    int opcode;
    int qpNum;
    std::size_t length;
  } qp;
};
static_assert(sizeof(ncclProfilerNetIbDescr_v1_t) == 40 &&
              offsetof(ncclProfilerNetIbDescr_v1_t, qp.length) == 32);

struct ncclProfilerNetSockDescr_v1_t {
  std::uint8_t type;  ///< ncclProfileSocket
  struct {
    int fd;
    int op;  ///< 0 a send, 1 a receive
    std::size_t length;
  } sock;
};
static_assert(sizeof(ncclProfilerNetSockDescr_v1_t) == 24 &&
              offsetof(ncclProfilerNetSockDescr_v1_t, sock.length) == 16);

}  // namespace tombolo::net_plugin::abi
