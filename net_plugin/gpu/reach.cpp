#include "net_plugin/gpu/reach.h"

#include <cerrno>
#include <cstring>

#include "base/format.h"

namespace tombolo::net_plugin::gpu {
namespace {

using topology::CudaDeviceAttribute;
using topology::CudaResult;

bool has_peer_memory(const topology::SysTree& sys) {
  // The second is the name of the module before it became a part of the GPU's driver.
  if (sys.exists("/sys/module/nvidia_peermem/version")) return true;
  for (const std::string& client : sys.names("/sys/kernel/mm/memory_peers"))
    if (client.starts_with("nv_mem") && sys.exists("/sys/kernel/mm/memory_peers/" + client + "/version"))
      return true;
  return false;
}

/// "GPU 1, 3": those that lack it; every GPU counts, because the memory of any may come. Empty where all have
/// it.
std::string gpus_without(const topology::CudaFunctions& cuda, CudaDeviceAttribute attribute) {
  int count = 0;
  if (cuda.device_count(&count) != CudaResult::kSuccess || count == 0) return "all GPUs";
  std::string lacking;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    topology::CudaFunctions::Device device = 0;
    int has = 0;
    if (cuda.device(&device, ordinal) != CudaResult::kSuccess ||
        cuda.device_attribute(&has, attribute, device) != CudaResult::kSuccess || has == 0)
      lacking += fmt::format("{}{}", lacking.empty() ? "GPU " : ", ", ordinal);
  }
  return lacking;
}

/// Why the device cannot register DMA-BUFs; empty where it can. It is asked to register a descriptor that
/// does not exist: a driver that could, objects to that descriptor.
std::string why_no_dma_buf(const topology::VerbsFunctions& verbs, const std::string& device_name) {
  if (verbs.reg_dmabuf_mr == nullptr) return "this libibverbs knows no DMA-BUF";
  int count = 0;
  ibv_device** list = verbs.get_device_list(&count);
  if (list == nullptr) return "libibverbs lists no devices";
  std::string why = fmt::format("libibverbs does not list {}", device_name);
  for (int i = 0; i < count; ++i) {
    if (device_name != verbs.get_device_name(list[i])) continue;
    ibv_context* context = verbs.open_device(list[i]);
    ibv_pd* domain = context != nullptr ? verbs.alloc_pd(context) : nullptr;
    if (domain == nullptr) {
      why = fmt::format("{} cannot be opened: {}", device_name, std::strerror(errno));
    } else {
      errno = 0;
      ibv_mr* made = verbs.reg_dmabuf_mr(domain, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE);
      const bool refused = made == nullptr && (errno == EOPNOTSUPP || errno == EPROTONOSUPPORT);
      why = refused ? fmt::format("the driver of {} knows no DMA-BUF", device_name) : std::string();
      if (made != nullptr) verbs.dereg_mr(made);
      verbs.dealloc_pd(domain);
    }
    if (context != nullptr) verbs.close_device(context);
    break;
  }
  verbs.free_device_list(list);
  return why;
}

}  // namespace

bool goes_by_rdma(const topology::Nic& nic) noexcept {
  return !nic.rdma_device.empty() && !nic.emulated &&
         (nic.kind == topology::NicKind::kInfiniBand || nic.kind == topology::NicKind::kRoce);
}

NicReach reach_of(const topology::Nic& nic, const GpuSurroundings& here) {
  NicReach found;
  if (here.cuda == nullptr) {
    found.reason = here.no_cuda;
    return found;
  }
  found.reach = GpuReach::kStaged;
  if (!goes_by_rdma(nic)) {
    found.reason = "its bytes go over TCP";
    return found;
  }
  if (here.verbs == nullptr) {
    found.reason = here.no_verbs;
    return found;
  }
  if (!has_peer_memory(*here.sys)) {
    found.no_peer_memory = "the module nvidia_peermem is not loaded";
  } else if (const std::string without = gpus_without(*here.cuda, CudaDeviceAttribute::kGpuDirectRdma);
             !without.empty()) {
    found.no_peer_memory = "nvidia_peermem is loaded, but the driver gives no GPUDirect RDMA for " + without;
  }
  if (const std::string without = gpus_without(*here.cuda, CudaDeviceAttribute::kDmaBuf); !without.empty())
    found.no_dma_buf = "the driver gives no DMA-BUF for " + without;
  else
    found.no_dma_buf = why_no_dma_buf(*here.verbs, nic.rdma_device);
  found.peer_memory = found.no_peer_memory.empty();
  found.dma_buf = found.no_dma_buf.empty();
  if (found.peer_memory || found.dma_buf) {
    found.reach = GpuReach::kDirect;
    found.reason = found.peer_memory && found.dma_buf ? "nvidia_peermem and DMA-BUF"
                   : found.peer_memory                ? "nvidia_peermem"
                                                      : "DMA-BUF";
  } else {
    found.reason = fmt::format("{}, and {}", found.no_peer_memory, found.no_dma_buf);
  }
  return found;
}

}  // namespace tombolo::net_plugin::gpu
