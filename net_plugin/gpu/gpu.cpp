#include "net_plugin/gpu/gpu.h"

#include <unistd.h>

#include "base/error.h"

namespace tombolo::net_plugin::gpu {

Gpu::Gpu(std::shared_ptr<const CudaFunctions> cuda, int ordinal)
    : cuda_(std::move(cuda)), ordinal_(ordinal), made_by_(::getpid()) {
  CudaFunctions::Device device = 0;
  CudaResult result = cuda_->device(&device, ordinal);
  if (result == CudaResult::kSuccess) result = cuda_->retain_context(&context_, device);
  if (result != CudaResult::kSuccess)
    fail(Cause::kSystem, "GPU {}: use its primary context: {}", ordinal, cuda_->describe(result));
}

Gpu::~Gpu() {
  if (usable()) cuda_->release_context(ordinal_);
}

bool Gpu::usable() const noexcept {
  return ::getpid() == made_by_;
}

Calls::Calls(const Gpu& gpu) noexcept : cuda_(gpu.cuda()) {
  pushed_ = cuda_.push_context(gpu.context_) == CudaResult::kSuccess;
  cuda_.exchange_capture_mode(&mode_);
}

Calls::~Calls() {
  cuda_.exchange_capture_mode(&mode_);
  CudaFunctions::Context context = nullptr;
  if (pushed_) cuda_.pop_context(&context);
}

}  // namespace tombolo::net_plugin::gpu
