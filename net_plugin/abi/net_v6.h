// Version 6 of NCCL's net interface. NCCL 2.13 to 2.30 look this version up.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net_plugin/abi/types.h"

namespace tombolo::net_plugin::abi {

struct ncclNetProperties_v6_t {
  char* name;
  char* pciPath;       ///< null for a device without one
  std::uint64_t guid;  ///< equal: the same port
  int ptrSupport;      ///< bits: NCCL_PTR_HOST, NCCL_PTR_CUDA, NCCL_PTR_DMABUF
  int speed;           ///< Mbit/s
  int port;            ///< number of the NIC's port
  float latency;       ///< microseconds; 0: not known
  int maxComms;        ///< connections at a time
  int maxRecvs;        ///< receives in one irecv
};

static_assert(sizeof(ncclNetProperties_v6_t) == 48 && offsetof(ncclNetProperties_v6_t, speed) == 28 &&
              offsetof(ncclNetProperties_v6_t, maxRecvs) == 44);

struct ncclNet_v6_t {
  const char* name;
  ncclResult_t (*init)(ncclDebugLogger_t logFunction);
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v6_t* props);
  ncclResult_t (*listen)(int dev, void* handle, void** listenComm);
  ncclResult_t (*connect)(int dev, void* handle, void** sendComm);
  ncclResult_t (*accept)(void* listenComm, void** recvComm);
  ncclResult_t (*regMr)(void* comm, void* data, int size, int type, void** mhandle);
  ncclResult_t (*regMrDmaBuf)(void* comm, void* data, std::size_t size, int type, std::uint64_t offset,
                              int fd, void** mhandle);
  ncclResult_t (*deregMr)(void* comm, void* mhandle);
  ncclResult_t (*isend)(void* sendComm, void* data, int size, int tag, void* mhandle, void** request);
  ncclResult_t (*irecv)(void* recvComm, int n, void** data, int* sizes, int* tags, void** mhandles,
                        void** request);
  ncclResult_t (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles, void** request);
  ncclResult_t (*test)(void* request, int* done, int* sizes);
  ncclResult_t (*closeSend)(void* sendComm);
  ncclResult_t (*closeRecv)(void* recvComm);
  ncclResult_t (*closeListen)(void* listenComm);
};

static_assert(sizeof(ncclNet_v6_t) == 17 * sizeof(void*));

}  // namespace tombolo::net_plugin::abi
