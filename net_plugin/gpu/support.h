// Which devices promise NCCL to take GPU memory, and how their connections then carry it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "net_plugin/gpu/reach.h"
#include "net_plugin/gpu/staging.h"
#include "topology/nic.h"

namespace tombolo::net_plugin::gpu {

enum class GpuMode : std::uint8_t {
  kAuto,    ///< GPU memory on devices whose RDMA NICs all reach it; their other connections stage
  kOff,     ///< host memory
  kStaged,  ///< GPU memory on every device; every connection that is not direct stages
  kDirect,  ///< as kAuto, but it must be there, RDMA NICs without it are left out, and nothing stages
};

struct GpuOptions {
  GpuMode mode = GpuMode::kAuto;
  std::size_t buffer_bytes = std::size_t{64} << 20;  ///< of pinned memory
  std::size_t copies = 4;                            ///< under way for each GPU, direction and kind of memory
  /// Those that the plugin's environment parameters say.
  static GpuOptions from_environment();
};

/// What one device promises.
struct DevicePromise {
  bool by_address = false;  ///< GPU memory registered by its address (NCCL_PTR_CUDA)
  bool dma_buf = false;     ///< GPU memory registered as DMA-BUF (NCCL_PTR_DMABUF)
  bool direct = false;      ///< its RDMA NICs read and write GPU memory
  bool gpu_memory() const noexcept { return by_address || dma_buf; }
};

/// One for the process. Threads: any.
class Support {
 public:
  /// `reach`: of every NIC, by its name. `cuda` may be null. Throws kUnsupported where the mode asks for what
  /// is not there, naming the NICs and the causes.
  explicit Support(GpuOptions options = {}, std::shared_ptr<const CudaFunctions> cuda = nullptr,
                   std::map<std::string, NicReach> reach = {});
  /// Finds out. A host without RDMA NICs is not asked for its CUDA driver unless the mode needs that.
  static std::shared_ptr<Support> detect(const GpuOptions& options, std::span<const topology::Nic> nics);

  /// Makes unusable, with the reason, those of the host's NICs whose devices could not take GPU memory
  /// although the mode demands that: NICs of RDMA kinds which do not reach it. TCP NICs stay, to stand by. In
  /// other modes it changes nothing.
  void leave_out(std::vector<topology::Nic>& nics) const;
  DevicePromise promise(std::span<const topology::Nic> nics) const;
  /// Whether this end wants connections of such a device to stage where their transport reaches host memory
  /// alone: they must once NCCL was promised GPU memory.
  bool wants_staging(std::span<const topology::Nic> nics) const;
  /// "host memory", "host memory and, staged, GPU memory", "host and GPU memory".
  std::string describe(std::span<const topology::Nic> nics) const;
  /// Of every NIC, by its name; empty where nobody asked.
  const std::map<std::string, NicReach>& reach() const noexcept { return reach_; }
  GpuMode mode() const noexcept { return options_.mode; }

  /// What staged connections share; made at the first call.
  std::shared_ptr<Staging> staging();

 private:
  GpuOptions options_;
  std::shared_ptr<const CudaFunctions> cuda_;
  std::map<std::string, NicReach> reach_;
  std::mutex lock_;
  std::shared_ptr<Staging> staging_;
};

}  // namespace tombolo::net_plugin::gpu
