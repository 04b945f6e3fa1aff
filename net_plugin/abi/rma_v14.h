// Version 14 of NCCL's interface of one-sided operations (RMA). NCCL 2.30.7 looks it up. One rank
// writes into, reads from, and raises signals in memory that all ranks of a group have registered together.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net_plugin/abi/net_v12.h"
#include "net_plugin/abi/rma_types.h"

namespace tombolo::net_plugin::abi {

/// Some releases have a third member, a stride of ranks, which Tombolo does not read.
struct ncclRmaConfig_v14_t {
  int nContexts;
  int trafficClass;
  int rankStride;  ///< operations go to every such rank alone, which Tombolo need not know: it connects when
                   ///< asked
};

struct ncclRma_v14_t {
  const char* name;
  ncclResult_t (*init)(void** ctx, std::uint64_t commId, ncclDebugLogger_t logFunction);
  /// 0: NCCL goes on to another plugin, and then calls neither finalize nor anything else of this table.
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v12_t* props);
  ncclResult_t (*listen)(void* ctx, int dev, void* handle, void** listenComm);
  /// `handles` has one for each rank. NCCL passes the context of the net interface here, not that of init.
  ncclResult_t (*connect)(void* ctx, void* handles[], int nranks, int rank, void* listenComm,
                          void** collComm);
  ncclResult_t (*createContext)(void* collComm, ncclRmaConfig_v14_t* config, void** rmaCtx);
  ncclResult_t (*regMrSym)(void* collComm, void* data, std::size_t size, int type, std::uint64_t mrFlags,
                           void** mhandle);
  ncclResult_t (*regMrSymDmaBuf)(void* collComm, void* data, std::size_t size, int type, std::uint64_t offset,
                                 int fd, std::uint64_t mrFlags, void** mhandle);
  ncclResult_t (*deregMrSym)(void* collComm, void* mhandle);
  ncclResult_t (*destroyContext)(void* rmaCtx);
  ncclResult_t (*closeColl)(void* collComm);
  ncclResult_t (*closeListen)(void* listenComm);
  /// A null request with ncclSuccess is an error of the plugin here, unlike in the net interface.
  ncclResult_t (*iput)(void* rmaCtx, int context, std::uint64_t srcOff, void* srcMhandle, std::size_t size,
                       std::uint64_t dstOff, void* dstMhandle, std::uint32_t rank, void** request);
  ncclResult_t (*iputSignal)(void* rmaCtx, int context, std::uint64_t srcOff, void* srcMhandle,
                             std::size_t size, std::uint64_t dstOff, void* dstMhandle, std::uint32_t rank,
                             std::uint64_t signalOff, void* signalMhandle, std::uint64_t signalValue,
                             std::uint32_t signalOp, bool isStrongSignal, void** request);
  ncclResult_t (*iget)(void* rmaCtx, int context, std::uint64_t remoteOff, void* remoteMhandle,
                       std::size_t size, std::uint64_t localOff, void* localMhandle, std::uint32_t rank,
                       void** request);
  ncclResult_t (*iflush)(void* rmaCtx, int context, void* mhandle, std::uint32_t rank, void** request);
  ncclResult_t (*test)(void* collComm, void* request, int* done);
  ncclResult_t (*rmaProgress)(void* rmaCtx);
  ncclResult_t (*queryLastError)(void* rmaCtx, bool* hasError);
  ncclResult_t (*finalize)(void* ctx);
};

static_assert(sizeof(ncclRma_v14_t) == 21 * sizeof(void*));

}  // namespace tombolo::net_plugin::abi
