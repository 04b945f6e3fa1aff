#include "transport/gpu/copier.h"

namespace tombolo::transport::gpu {

Copier::Copier(const std::shared_ptr<const Gpu>& gpu, std::size_t most)
    : gpu_(gpu), to_host_(gpu, most, "copies"), to_device_(gpu, most, "copies") {}

bool Copier::start(Way way, std::byte* host, std::byte* device, std::size_t bytes, Copy& copy) noexcept {
  const std::lock_guard guard(lock_);
  const CudaFunctions& cuda = gpu_->cuda();
  const auto address = reinterpret_cast<CudaFunctions::Address>(device);
  if (way == Way::kToHost) {
    return to_host_.start(
        [&](CudaFunctions::Stream on) { return cuda.copy_from_device(host, address, bytes, on); }, copy);
  }
  return to_device_.start(
      [&](CudaFunctions::Stream on) { return cuda.copy_to_device(address, host, bytes, on); }, copy);
}

void Copier::look() noexcept {
  const std::unique_lock guard(lock_, std::try_to_lock);
  if (!guard.owns_lock()) return;  // another thread looks
  to_host_.look();
  to_device_.look();
}

}  // namespace tombolo::transport::gpu
