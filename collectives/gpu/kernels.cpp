#include "collectives/gpu/kernels.h"

#include <algorithm>

#include "base/error.h"
#include "collectives/gpu/kernel_image.h"

namespace tombolo::collectives::gpu {

using topology::CudaFunctions;
using topology::CudaResult;
using transport::gpu::Calls;

namespace {

/// Kernels under way on a GPU: enough that the next has begun when one ends.
constexpr std::size_t kMostUnderWay = 4;
/// Blocks of a kernel. They keep more bytes under way than the bus has room for, and leave the program most
/// of its GPU.
constexpr std::uint64_t kMostBlocks = 32;
constexpr std::uint64_t kBytesOfThread = 8;  // in one turn of its loop

unsigned blocks_for(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t kOfBlock = kBytesOfThread * kReductionThreads;
  return static_cast<unsigned>(std::clamp<std::uint64_t>((bytes + kOfBlock - 1) / kOfBlock, 1, kMostBlocks));
}

}  // namespace

std::string kernel_name(DataType type) {
  return kReductionKernel + std::string(data_type_name(type));
}

Kernels::Kernels(std::shared_ptr<const transport::gpu::Gpu> gpu)
    : gpu_(std::move(gpu)), queue_(gpu_, kMostUnderWay, "kernels") {
  const CudaFunctions& cuda = gpu_->cuda();
  const Calls calls(*gpu_);
  CudaResult result = cuda.load_module(&module_, kernel_image().data());
  std::string what = "the module";
  for (std::size_t i = 0; i < kTypes && result == CudaResult::kSuccess; ++i) {
    what = kernel_name(static_cast<DataType>(i));
    result = cuda.function(&functions_[i], module_, what.c_str());
  }
  if (result == CudaResult::kSuccess) return;
  if (module_ != nullptr) cuda.unload_module(module_);
  fail(
      Cause::kSystem,
      "GPU {}: load {} of the kernels that carry out reductions: {}; they are for GPUs of compute capability "
      "8.0 and later, and TOMBOLO_GPU_REDUCE=off leaves the arithmetic to the processor",
      gpu_->ordinal(), what, cuda.describe(result));
}

Kernels::~Kernels() {
  if (!gpu_->usable()) return;
  queue_.look();
  if (!queue_.is_idle()) return;
  const Calls calls(*gpu_);
  gpu_->cuda().unload_module(module_);
}

bool Kernels::start(const ReductionArguments& given, DataType type, transport::gpu::Queued& queued) noexcept {
  const std::lock_guard guard(lock_);
  return queue_.start(
      [&](CudaFunctions::Stream on) {
        ReductionArguments copied = given;
        void* parameters[] = {&copied};
        return gpu_->cuda().launch(functions_[static_cast<std::size_t>(type)],
                                   blocks_for(given.count * size_of(type)), 1, 1, kReductionThreads, 1, 1, 0,
                                   on, parameters, nullptr);
      },
      queued);
}

void Kernels::look() noexcept {
  const std::unique_lock guard(lock_, std::try_to_lock);
  if (guard.owns_lock()) queue_.look();
}

}  // namespace tombolo::collectives::gpu
