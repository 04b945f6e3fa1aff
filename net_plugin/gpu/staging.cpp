#include "net_plugin/gpu/staging.h"

#include "base/error.h"

namespace tombolo::net_plugin::gpu {

using topology::CudaMemoryType;
using topology::CudaPointerAttribute;

Staging::One& Staging::of(int ordinal) {
  One& one = gpus_[ordinal];
  if (one.gpu == nullptr) one.gpu = std::make_shared<const Gpu>(cuda_, ordinal);
  return one;
}

Copier& Staging::copier_of(const std::byte* address) {
  if (cuda_ == nullptr) {
    fail(Cause::kUnsupported, "{} is said to be GPU memory, but there is no CUDA driver in this process",
         static_cast<const void*>(address));
  }
  // Of memory from a virtual mapping, as NCCL's own is, CUDA knows no context, but it knows the GPU.
  auto type = CudaMemoryType::kUnknown;
  int ordinal = 0;
  const auto at = reinterpret_cast<CudaFunctions::Address>(address);
  CudaResult result = cuda_->pointer_attribute(&type, CudaPointerAttribute::kMemoryType, at);
  if (result == CudaResult::kSuccess)
    result = cuda_->pointer_attribute(&ordinal, CudaPointerAttribute::kDeviceOrdinal, at);
  if (result != CudaResult::kSuccess || type != CudaMemoryType::kDevice) {
    fail(Cause::kInvalidUsage, "{} is said to be GPU memory, but the CUDA driver says: {}, memory type {}",
         static_cast<const void*>(address), cuda_->describe(result), static_cast<unsigned>(type));
  }
  const std::lock_guard guard(lock_);
  One& one = of(ordinal);
  if (one.copier == nullptr) one.copier = std::make_unique<Copier>(one.gpu, copies_);
  return *one.copier;
}

std::shared_ptr<const Gpu> Staging::some_gpu() {
  if (cuda_ == nullptr) return nullptr;
  const std::lock_guard guard(lock_);
  CudaFunctions::Device current = 0;
  if (cuda_->current_device(&current) == CudaResult::kSuccess) return of(current).gpu;
  return gpus_.empty() ? of(0).gpu : gpus_.begin()->second.gpu;
}

}  // namespace tombolo::net_plugin::gpu
