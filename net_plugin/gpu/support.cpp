#include "net_plugin/gpu/support.h"

#include <algorithm>

#include "base/error.h"
#include "net_plugin/parameters.h"

namespace tombolo::net_plugin::gpu {
GpuOptions GpuOptions::from_environment() {
  GpuOptions options;
  const std::string mode = kNetGpuParameter.choice();
  options.mode = mode == "off"      ? GpuMode::kOff
                 : mode == "staged" ? GpuMode::kStaged
                 : mode == "direct" ? GpuMode::kDirect
                                    : GpuMode::kAuto;
  options.buffer_bytes = kNetGpuBuffersParameter.size();
  const std::int64_t copies = kNetGpuCopiesParameter.integer();
  constexpr std::int64_t kMostCopies = 64;
  if (copies < 1 || copies > kMostCopies) {
    fail(Cause::kInvalidUsage, "{}={}: give a number of copies from 1 to {}", kNetGpuCopiesParameter.name,
         copies, kMostCopies);
  }
  options.copies = static_cast<std::size_t>(copies);
  return options;
}

Support::Support(GpuOptions options, std::shared_ptr<const CudaFunctions> cuda,
                 std::map<std::string, NicReach> reach)
    : options_(options), cuda_(std::move(cuda)), reach_(std::move(reach)) {
  std::string reasons;
  bool any_direct = false;
  for (const auto& [name, one] : reach_) {
    any_direct |= one.reach == GpuReach::kDirect;
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", name, one.reason);
  }
  if (options_.mode == GpuMode::kStaged && cuda_ == nullptr) {
    fail(Cause::kUnsupported, "{}=staged: there is no GPU whose memory could be staged ({})",
         kNetGpuParameter.name, reasons);
  }
  if (options_.mode == GpuMode::kDirect && !any_direct) {
    fail(Cause::kUnsupported, "{}=direct: no NIC here reaches GPU memory by itself ({})",
         kNetGpuParameter.name, reasons);
  }
}

std::shared_ptr<Support> Support::detect(const GpuOptions& options, std::span<const topology::Nic> nics) {
  std::shared_ptr<const CudaFunctions> cuda;
  std::map<std::string, NicReach> reach;
  const bool asked = options.mode == GpuMode::kStaged || options.mode == GpuMode::kDirect ||
                     (options.mode == GpuMode::kAuto && std::ranges::any_of(nics, goes_by_rdma));
  if (asked) {
    GpuSurroundings here;
    cuda = CudaFunctions::load(&here.no_cuda);
    here.cuda = cuda.get();
    std::shared_ptr<const topology::VerbsFunctions> verbs;
    if (cuda != nullptr && std::ranges::any_of(nics, goes_by_rdma))
      verbs = topology::VerbsFunctions::load(&here.no_verbs);
    here.verbs = verbs.get();
    const topology::SysTree sys("/");
    here.sys = &sys;
    for (const topology::Nic& nic : nics) reach.emplace(nic.name, reach_of(nic, here));
  }
  return std::make_shared<Support>(options, std::move(cuda), std::move(reach));
}

void Support::leave_out(std::vector<topology::Nic>& nics) const {
  if (options_.mode != GpuMode::kDirect) return;
  // All that stay have to share one of the two ways.
  std::size_t by_address = 0, by_dma_buf = 0;
  for (const auto& [name, one] : reach_) {
    by_address += one.peer_memory ? 1 : 0;
    by_dma_buf += one.dma_buf ? 1 : 0;
  }
  const bool wants_dma_buf = by_dma_buf > by_address;
  for (topology::Nic& nic : nics) {
    const bool carries_rdma =
        nic.kind == topology::NicKind::kInfiniBand || nic.kind == topology::NicKind::kRoce;
    if (!nic.usable || !carries_rdma) continue;
    const auto found = reach_.find(nic.name);
    const NicReach one = found != reach_.end() ? found->second : NicReach{};
    if (wants_dma_buf ? one.dma_buf : one.peer_memory) continue;
    const std::string why = one.reach != GpuReach::kDirect ? one.reason
                            : wants_dma_buf                ? one.no_dma_buf
                                                           : one.no_peer_memory;
    nic.usable = false;
    nic.reason = fmt::format("it does not reach GPU memory as the others do ({}={}): {}",
                             kNetGpuParameter.name, kNetGpuParameter.text(), why);
  }
}

DevicePromise Support::promise(std::span<const topology::Nic> nics) const {
  DevicePromise promise;
  if (options_.mode == GpuMode::kOff || cuda_ == nullptr) return promise;
  // A connection may use any of the device's RDMA NICs, so that only what all of them can do is promised.
  bool direct = false, by_address = true, dma_buf = true;
  for (const topology::Nic& nic : nics) {
    if (!goes_by_rdma(nic)) continue;
    const auto found = reach_.find(nic.name);
    const NicReach one = found != reach_.end() ? found->second : NicReach{};
    direct = true;
    by_address &= one.peer_memory;
    dma_buf &= one.dma_buf;
  }
  promise.direct = direct && (by_address || dma_buf);
  if (promise.direct) {
    promise.by_address = by_address;
    promise.dma_buf = dma_buf;
  } else if (options_.mode == GpuMode::kStaged) {
    // An RDMA connection of the device would not stage, and could not carry it either.
    promise.by_address = !direct;
  }
  return promise;
}

bool Support::wants_staging(std::span<const topology::Nic> nics) const {
  return options_.mode != GpuMode::kDirect && promise(nics).gpu_memory();
}

std::string Support::describe(std::span<const topology::Nic> nics) const {
  const DevicePromise made = promise(nics);
  if (!made.gpu_memory()) return "host memory";
  return made.direct ? "host and GPU memory" : "host memory and, staged, GPU memory";
}

std::shared_ptr<Staging> Support::staging() {
  const std::lock_guard guard(lock_);
  if (staging_ == nullptr)
    staging_ = std::make_shared<Staging>(cuda_, options_.buffer_bytes, options_.copies);
  return staging_;
}

}  // namespace tombolo::net_plugin::gpu
