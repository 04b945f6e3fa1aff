#include "transport/gpu/gpu.h"

#include <unistd.h>

#include "base/error.h"

namespace tombolo::transport::gpu {

Gpu::Gpu(std::shared_ptr<const CudaFunctions> cuda, int ordinal, ContextOf owner)
    : cuda_(std::move(cuda)), ordinal_(ordinal), owner_(owner), made_by_(::getpid()) {
  CudaFunctions::Device device = 0;
  CudaResult result = cuda_->device(&device, ordinal);
  if (result == CudaResult::kSuccess && owner == ContextOf::kProgram)
    result = cuda_->retain_context(&context_, device);
  if (result == CudaResult::kSuccess && owner == ContextOf::kOwn) {
    result = cuda_->create_context(&context_, 0, device);
    CudaFunctions::Context pushed = nullptr;
    if (result == CudaResult::kSuccess) cuda_->pop_context(&pushed);
  }
  if (result != CudaResult::kSuccess) {
    fail(Cause::kSystem, "GPU {}: {}: {}", ordinal,
         owner == ContextOf::kProgram ? "use its primary context" : "make a context for copies",
         cuda_->describe(result));
  }
}

Gpu::~Gpu() {
  if (!usable()) return;
  if (owner_ == ContextOf::kProgram) cuda_->release_context(ordinal_);
  if (owner_ == ContextOf::kOwn) cuda_->destroy_context(context_);
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

}  // namespace tombolo::transport::gpu
