// Version 15 of NCCL's interface of one-sided operations. NCCL 2.31 and 2.32 look it up. It adds flags to
// put and get. The sources of these releases have not been published; the table is as in the debugging
// information of 2.31.2 and 2.32.3, and as in the copy of NCCL's header that aws-ofi-nccl has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net_plugin/abi/rma_v14.h"

namespace tombolo::net_plugin::abi {

using ncclRmaConfig_v15_t = ncclRmaConfig_v14_t;

struct ncclRma_v15_t {
  const char* name;
  ncclResult_t (*init)(void** ctx, std::uint64_t commId, ncclDebugLogger_t logFunction);
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v12_t* props);
  ncclResult_t (*listen)(void* ctx, int dev, void* handle, void** listenComm);
  ncclResult_t (*connect)(void* ctx, void* handles[], int nranks, int rank, void* listenComm,
                          void** collComm);
  ncclResult_t (*createContext)(void* collComm, ncclRmaConfig_v15_t* config, void** rmaCtx);
  ncclResult_t (*regMrSym)(void* collComm, void* data, std::size_t size, int type, std::uint64_t mrFlags,
                           void** mhandle);
  ncclResult_t (*regMrSymDmaBuf)(void* collComm, void* data, std::size_t size, int type, std::uint64_t offset,
                                 int fd, std::uint64_t mrFlags, void** mhandle);
  ncclResult_t (*deregMrSym)(void* collComm, void* mhandle);
  ncclResult_t (*destroyContext)(void* rmaCtx);
  ncclResult_t (*closeColl)(void* collComm);
  ncclResult_t (*closeListen)(void* listenComm);
  /// `optFlags`: bit 0 says that more follows, so that sending may wait for it.
  ncclResult_t (*iput)(void* rmaCtx, int context, std::uint64_t srcOff, void* srcMhandle, std::size_t size,
                       std::uint64_t dstOff, void* dstMhandle, std::uint32_t rank, std::uint32_t optFlags,
                       void** request);
  ncclResult_t (*iputSignal)(void* rmaCtx, int context, std::uint64_t srcOff, void* srcMhandle,
                             std::size_t size, std::uint64_t dstOff, void* dstMhandle, std::uint32_t rank,
                             std::uint64_t signalOff, void* signalMhandle, std::uint64_t signalValue,
                             std::uint32_t signalOp, bool isStrongSignal, std::uint32_t optFlags,
                             void** request);
  ncclResult_t (*iget)(void* rmaCtx, int context, std::uint64_t remoteOff, void* remoteMhandle,
                       std::size_t size, std::uint64_t localOff, void* localMhandle, std::uint32_t rank,
                       std::uint32_t optFlags, void** request);
  ncclResult_t (*iflush)(void* rmaCtx, int context, void* mhandle, std::uint32_t rank, void** request);
  ncclResult_t (*test)(void* collComm, void* request, int* done);
  ncclResult_t (*rmaProgress)(void* rmaCtx);
  ncclResult_t (*queryLastError)(void* rmaCtx, bool* hasError);
  ncclResult_t (*finalize)(void* ctx);
};

static_assert(sizeof(ncclRma_v15_t) == 21 * sizeof(void*));

}  // namespace tombolo::net_plugin::abi
