// Version 12 of NCCL's net interface. NCCL 2.30 looks this version up. It adds rails and planes to v11's
// properties, and virtual devices of up to eight.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net_plugin/abi/net_v11.h"

namespace tombolo::net_plugin::abi {

using ncclNetCommConfig_v12_t = ncclNetCommConfig_v11_t;

/// The physical devices that a device consists of; makeVDevice takes one too.
struct ncclNetVDeviceProps_v12_t {
  int ndevs;
  int devs[8];
};

struct ncclNetProperties_v12_t {
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
  ncclNetVDeviceProps_v12_t vProps;
  std::size_t maxP2pBytes;
  std::size_t maxCollBytes;
  int maxMultiRequestSize;
  std::int16_t railId;   ///< NCCL_NET_ID_UNDEF where unknown
  std::int16_t planeId;  ///< NCCL_NET_ID_UNDEF where unknown
};

static_assert(sizeof(ncclNetProperties_v12_t) == 128 &&
              offsetof(ncclNetProperties_v12_t, maxP2pBytes) == 104 &&
              offsetof(ncclNetProperties_v12_t, maxMultiRequestSize) == 120 &&
              offsetof(ncclNetProperties_v12_t, railId) == 124 &&
              offsetof(ncclNetProperties_v12_t, planeId) == 126);

using ncclNetCommAttr_v12_t = ncclNetCommAttr_v11_t;
using ncclNetAttr_v12_t = ncclNetAttr_v11_t;

struct ncclNet_v12_t {
  const char* name;
  ncclResult_t (*init)(void** ctx, std::uint64_t commId, ncclNetCommConfig_v12_t* config,
                       ncclDebugLogger_t logFunction, ncclProfilerCallback_t profFunction);
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v12_t* props);
  ncclResult_t (*listen)(void* ctx, int dev, void* handle, void** listenComm);
  ncclResult_t (*connect)(void* ctx, int dev, void* handle, void** sendComm,
                          ncclNetDeviceHandle_v12_t** sendDevComm);
  ncclResult_t (*accept)(void* listenComm, void** recvComm, ncclNetDeviceHandle_v12_t** recvDevComm);
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
  ncclResult_t (*makeVDevice)(int* d, ncclNetVDeviceProps_v12_t* props);
  ncclResult_t (*finalize)(void* ctx);
  ncclResult_t (*setNetAttr)(void* ctx, ncclNetAttr_v12_t* netAttr);
};

static_assert(sizeof(ncclNet_v12_t) == 22 * sizeof(void*));

}  // namespace tombolo::net_plugin::abi
