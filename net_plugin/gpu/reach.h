// How a NIC gets at GPU memory.
#pragma once

#include <string>

#include "topology/nic.h"
#include "topology/system/cuda_library.h"
#include "topology/system/sys_tree.h"
#include "topology/system/verbs_functions.h"

namespace tombolo::net_plugin::gpu {

enum class GpuReach : std::uint8_t {
  kHost,    ///< not at all: there is no GPU that this process can use
  kStaged,  ///< not by itself: by copies through host memory
  kDirect,  ///< it reads and writes GPU memory
};

struct NicReach {
  GpuReach reach = GpuReach::kHost;
  // How it registers GPU memory, where it is direct. Either may be there without the other, so that NCCL must
  // be told of each by itself: it has no way back from a registration that was promised and is refused.
  bool peer_memory = false;  ///< by address: the kernel's NIC driver asks the GPU's (nvidia_peermem)
  bool dma_buf = false;      ///< by a DMA-BUF descriptor
  std::string reason;        ///< why not better, or what makes it direct
  // Why one of the two ways is not there, on a NIC that RDMA goes over; empty where it is.
  std::string no_peer_memory = {}, no_dma_buf = {};
};

/// What this process has, for reach_of(). The texts say why something is absent.
struct GpuSurroundings {
  const topology::CudaFunctions* cuda = nullptr;
  std::string no_cuda;
  const topology::VerbsFunctions* verbs = nullptr;
  std::string no_verbs;
  const topology::SysTree* sys = nullptr;
};

/// Whether its bytes go by RDMA: not those of a NIC whose kind is only declared, nor of an iWARP one.
bool goes_by_rdma(const topology::Nic& nic) noexcept;

/// Set-up: opens the NIC's RDMA device for a moment.
NicReach reach_of(const topology::Nic& nic, const GpuSurroundings& here);

}  // namespace tombolo::net_plugin::gpu
