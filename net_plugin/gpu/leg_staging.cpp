#include "net_plugin/gpu/leg_staging.h"

#include "base/error.h"

namespace tombolo::net_plugin::gpu {
namespace {

using topology::CudaDeviceAttribute;

std::shared_ptr<OwnPieces> own_pieces(const std::shared_ptr<Staging>& staging, Directions directions) {
  constexpr std::size_t kOwn = StagedConnection::kOwnPieces, kToAgree = 1;
  // What goes from host memory, as that by which the ends agree, takes no piece.
  return std::make_shared<OwnPieces>(staging, directions != Directions::kReceive ? kOwn : 0,
                                     directions != Directions::kSend ? kOwn : kToAgree);
}

/// 0 where the driver does not know the attribute.
int attribute_of(const Gpu& gpu, CudaDeviceAttribute attribute) {
  CudaFunctions::Device device = 0;
  int value = 0;
  const CudaFunctions& cuda = gpu.cuda();
  const bool told = cuda.device(&device, gpu.ordinal()) == CudaResult::kSuccess &&
                    cuda.device_attribute(&value, attribute, device) == CudaResult::kSuccess;
  return told ? value : 0;
}

}  // namespace

LegStaging::LegStaging(std::shared_ptr<Staging> staging, Directions directions, Log log,
                       transport::Overlong overlong)
    : staging_(std::move(staging)),
      log_(std::move(log)),
      overlong_(overlong),
      own_(own_pieces(staging_, directions)) {}

std::string LegStaging::prepare(std::span<std::byte> memory) {
  std::string note;
  const Gpu& gpu = staging_->copier_of(memory.data(), &note).gpu();
  if (!note.empty()) log_.warning("{}", note);
  if (attribute_of(gpu, CudaDeviceAttribute::kWritesOrdering) >= topology::kCudaOrderedForOwner) return {};
  const int options = attribute_of(gpu, CudaDeviceAttribute::kFlushWritesOptions);
  if (gpu.cuda().flush_nic_writes == nullptr || (options & topology::kCudaFlushByHost) == 0) {
    return fmt::format(
        "only a NIC can make GPU {} see what it has written there, and no longer once it has failed "
        "(the driver has no cuFlushGPUDirectRDMAWrites for this GPU)",
        gpu.ordinal());
  }
  const std::lock_guard guard(lock_);
  const Gpu*& one = to_flush_[gpu.ordinal()];
  // The plugin's own context waits for nobody.
  if (one == nullptr || gpu.owner() == ContextOf::kOwn) one = &gpu;
  return {};
}

void LegStaging::flush_nic_writes() {
  const std::lock_guard guard(lock_);
  for (const auto& [ordinal, gpu] : to_flush_) {
    const Calls calls(*gpu);
    const CudaResult result =
        gpu->cuda().flush_nic_writes(topology::kCudaFlushCurrentContext, topology::kCudaFlushToOwner);
    if (result != CudaResult::kSuccess) {
      fail(Cause::kSystem, "GPU {}: flush what NICs have written: {}", ordinal, gpu->cuda().describe(result));
    }
  }
}

std::unique_ptr<transport::Connection> LegStaging::stage(std::unique_ptr<transport::Connection> leg) {
  return std::make_unique<StagedConnection>(std::move(leg), own_, staging_, log_, overlong_);
}

}  // namespace tombolo::net_plugin::gpu
