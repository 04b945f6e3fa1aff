#include "net_plugin/gpu/staging.h"

#include <utility>

#include "base/error.h"

namespace tombolo::net_plugin::gpu {

using topology::CudaMemoryType;
using topology::CudaPointerAttribute;

Staging::InContext& Staging::best_of(int ordinal) {
  One& one = gpus_[ordinal];
  if (!one.plugin && one.no_context.empty()) {
    try {
      one.plugin = InContext{std::make_shared<const Gpu>(cuda_, ordinal, ContextOf::kOwn), nullptr};
    } catch (const Error& error) {
      one.no_context = error.what();
    }
  }
  return one.plugin ? *one.plugin : program_of(ordinal);
}

Staging::InContext& Staging::program_of(int ordinal) {
  One& one = gpus_[ordinal];
  if (!one.program)
    one.program = InContext{std::make_shared<const Gpu>(cuda_, ordinal, ContextOf::kProgram), nullptr};
  return *one.program;
}

bool Staging::belongs_to_no_context(const std::byte* address) const {
  CudaFunctions::Allocation allocation = 0;
  if (cuda_->retain_allocation(&allocation, const_cast<std::byte*>(address)) != CudaResult::kSuccess)
    return false;
  cuda_->release_allocation(allocation);
  return true;
}

Copier& Staging::copier_of(const std::byte* address, std::string* note) {
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
  const bool anybodys = belongs_to_no_context(address);
  const std::lock_guard guard(lock_);
  InContext& in = anybodys ? best_of(ordinal) : program_of(ordinal);
  if (in.copier == nullptr) in.copier = std::make_unique<Copier>(in.gpu, copies_);
  One& one = gpus_[ordinal];
  if (note != nullptr && in.gpu->owner() == ContextOf::kProgram && !std::exchange(one.told, true)) {
    *note = fmt::format(
        "GPU {}: copies of staged memory are made in the program's CUDA context, since {}; while CUDA frees "
        "memory there or loads a "
        "kernel for its first launch, they wait, and that may wait for them: {}CUDA_MODULE_LOADING=EAGER "
        "avoids most of it",
        ordinal, anybodys ? one.no_context : "the memory is not of cuMemCreate, as cudaMalloc's is not",
        anybodys ? "leave half a GiB of the GPU's memory free; "
                 : "NCCL_CUMEM_ENABLE=1 gives NCCL's own buffers of the other kind; ");
  }
  return *in.copier;
}

std::shared_ptr<const Gpu> Staging::some_gpu() {
  if (cuda_ == nullptr) return nullptr;
  const std::lock_guard guard(lock_);
  CudaFunctions::Device current = 0;
  if (cuda_->current_device(&current) != CudaResult::kSuccess)
    current = gpus_.empty() ? 0 : gpus_.begin()->first;
  return best_of(current).gpu;
}

}  // namespace tombolo::net_plugin::gpu
