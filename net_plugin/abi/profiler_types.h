// What all versions of NCCL's profiler interface share. NCCL fills in descriptions of events and hands over a
// pointer, so that only the members that are read need to be where NCCL has them. The layouts of collectives'
// descriptions differ in almost every version; of these only the name is read, where a version's header says
// where it is.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "net_plugin/abi/types.h"

namespace tombolo::net_plugin::abi {

/// Kinds of events: bits of the mask that init sets, and the `type` of a description.
inline constexpr int ncclProfileColl = 1 << 1;
inline constexpr int ncclProfileP2p = 1 << 2;
inline constexpr int ncclProfileProxyOp = 1 << 3;
inline constexpr int ncclProfileProxyStep = 1 << 4;
inline constexpr int ncclProfileNetPlugin = 1 << 7;  ///< v3 and later

/// The states that events are told to be in, and others that are not read. Those of steps say what the step
/// waits for from then on.
enum ncclProfilerEventState_t : int {
  ncclProfilerProxyStepSendGPUWait = 8,
  ncclProfilerProxyStepSendWait = 9,
  ncclProfilerProxyStepRecvWait = 10,
  ncclProfilerProxyStepRecvFlushWait = 11,
  ncclProfilerProxyStepRecvGPUWait = 12,
  ncclProfilerProxyStepSendPeerWait_v4 = 20,
  ncclProfilerNetPluginUpdate = 21,
};

/// The members of a description's union that are read. All versions have them at the same place.
union ncclProfilerEventDetail {
  struct {
    pid_t pid;  ///< of the process whose operation it is: another one's with PXN, which parentObj then
                ///< belongs to
    std::uint8_t channelId;
    int peer;
    int nSteps;
    int chunkSize;
    int isSend;
  } proxyOp;
  struct {
    int step;
  } proxyStep;
  struct {
    std::int64_t id;  ///< what the network gave: whose description `data` is
    void* data;
  } netPlugin;
};

}  // namespace tombolo::net_plugin::abi
