// Version 11 of NCCL's net interface. NCCL 2.28 to 2.30 look this version up. It adds a context for each
// communicator, finalize and setNetAttr.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net_plugin/abi/net_v10.h"

namespace tombolo::net_plugin::abi {

using ncclNetCommConfig_v11_t = ncclNetCommConfig_v10_t;

using ncclNetVDeviceProps_v11_t = ncclNetVDeviceProps_v10_t;

struct ncclNetProperties_v11_t {
  char* name;
  char* pciPath;
  std::uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int forceFlush;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
  ncclNetVDeviceProps_v11_t vProps;
  std::size_t maxP2pBytes;
  std::size_t maxCollBytes;
  int maxMultiRequestSize;  ///< requests in one multi-request; 1: none
};

static_assert(sizeof(ncclNetProperties_v11_t) == 112 &&
              offsetof(ncclNetProperties_v11_t, maxMultiRequestSize) == 104);

/// How a communicator will use its connections in one direction; every field may be NCCL_NET_ATTR_UNDEF.
struct ncclNetCommAttr_v11_t {
  std::int32_t maxConcurrentPeers;
  std::int32_t minConcurrentPeers;
  std::int32_t maxFlowsPerPeer;
  std::int32_t minFlowsPerPeer;
};

struct ncclNetAttr_v11_t {
  ncclNetCommAttr_v11_t sendCommAttr;
  ncclNetCommAttr_v11_t recvCommAttr;
  std::uint32_t op;
  std::uint32_t algo;
  std::uint32_t proto;
};

static_assert(sizeof(ncclNetAttr_v11_t) == 44);

struct ncclNet_v11_t {
  const char* name;
  ncclResult_t (*init)(void** ctx, std::uint64_t commId, ncclNetCommConfig_v11_t* config,
                       ncclDebugLogger_t logFunction, ncclProfilerCallback_t profFunction);
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v11_t* props);
  ncclResult_t (*listen)(void* ctx, int dev, void* handle, void** listenComm);
  ncclResult_t (*connect)(void* ctx, int dev, void* handle, void** sendComm,
                          ncclNetDeviceHandle_v11_t** sendDevComm);
  ncclResult_t (*accept)(void* listenComm, void** recvComm, ncclNetDeviceHandle_v11_t** recvDevComm);
  ncclResult_t (*regMr)(void* comm, void* data, std::size_t size, int type, void** mhandle);
  ncclResult_t (*regMrDmaBuf)(void* comm, void* data, std::size_t size, int type, std::uint64_t offset,
                              int fd, void** mhandle);
  ncclResult_t (*deregMr)(void* comm, void* mhandle);
  ncclResult_t (*isend)(void* sendComm, void* data, std::size_t size, int tag, void* mhandle, void* phandle,
                        void** request);
  ncclResult_t (*irecv)(void* recvComm, int n, void** data, std::size_t* sizes, int* tags, void** mhandles,
                        void** phandles, void** request);
  ncclResult_t (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles, void** request);
  ncclResult_t (*test)(void* request, int* done, int* sizes);
  ncclResult_t (*closeSend)(void* sendComm);
  ncclResult_t (*closeRecv)(void* recvComm);
  ncclResult_t (*closeListen)(void* listenComm);
  ncclResult_t (*getDeviceMr)(void* comm, void* mhandle, void** dptr_mhandle);
  ncclResult_t (*irecvConsumed)(void* recvComm, int n, void* request);
  ncclResult_t (*makeVDevice)(int* d, ncclNetVDeviceProps_v11_t* props);
  ncclResult_t (*finalize)(void* ctx);
  ncclResult_t (*setNetAttr)(void* ctx, ncclNetAttr_v11_t* netAttr);
};

static_assert(sizeof(ncclNet_v11_t) == 22 * sizeof(void*));

}  // namespace tombolo::net_plugin::abi
