#include "collectives/gpu/staging.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "collectives/gpu/device_memory.h"

namespace tombolo::collectives::gpu {

using transport::gpu::Calls;
using transport::gpu::ContextOf;

namespace {

/// The least that is locked: a page.
constexpr std::size_t kLeastBlock = 4096;
/// Events are made before they are needed, since that may wait for the program.
constexpr std::size_t kEventsAtATime = 8;

/// Whether a stream is to blame that an event cannot be recorded on it: that of another GPU or context, one
/// that was destroyed, or one of which a graph is captured.
bool blames_the_stream(CudaResult result) {
  constexpr int kInvalidHandle = 400, kFirstOfCapture = 900, kLastOfCapture = 908;
  const int number = static_cast<int>(result);
  return result == CudaResult::kInvalidValue || result == CudaResult::kInvalidContext ||
         number == kInvalidHandle || (number >= kFirstOfCapture && number <= kLastOfCapture);
}

}  // namespace

std::shared_ptr<Staging> Staging::of_process() {
  static std::mutex lock;
  static std::weak_ptr<Staging> known;
  const std::lock_guard guard(lock);
  auto one = known.lock();
  if (!one) known = one = std::make_shared<Staging>(program_driver());
  return one;
}

Staging::~Staging() {
  free_unused();
  for (auto& [ordinal, one] : gpus_) {
    one.copier.reset();
    one.kernels.reset();
    if (!one.gpu->usable()) continue;
    const Calls calls(*one.gpu);
    // Those that have not happened yet are the driver's from here on: it does not wait for them.
    for (const auto* events : {&one.events, &one.pending})
      for (const auto event : *events) cuda_->destroy_event(event);
  }
}

Staging::One& Staging::one_of(int ordinal) {
  One& one = gpus_[ordinal];
  if (one.gpu == nullptr) one.gpu = std::make_shared<const Gpu>(cuda_, ordinal, ContextOf::kProgram);
  if (one.copier == nullptr) one.copier = std::make_unique<Copier>(one.gpu, kCopies);
  return one;
}

Copier& Staging::copier_of(int ordinal) {
  const std::lock_guard guard(lock_);
  return *one_of(ordinal).copier;
}

Kernels& Staging::kernels_of(int ordinal) {
  const std::lock_guard guard(lock_);
  One& one = one_of(ordinal);
  if (one.kernels == nullptr) one.kernels = std::make_unique<Kernels>(one.gpu);
  return *one.kernels;
}

std::byte* Staging::seen_by(int ordinal, Block block) {
  const std::lock_guard guard(lock_);
  const Calls calls(*one_of(ordinal).gpu);
  CudaFunctions::Address address = 0;
  const CudaResult result = cuda_->device_address(&address, block.data, 0);
  if (result != CudaResult::kSuccess)
    fail(Cause::kSystem, "GPU {}: find where it sees {} of page-locked memory: {}", ordinal,
         format_size(block.bytes), cuda_->describe(result));
  return reinterpret_cast<std::byte*>(address);
}

CudaFunctions::Event Staging::record(int ordinal, CudaFunctions::Stream stream) {
  const std::lock_guard guard(lock_);
  One& one = one_of(ordinal);
  const Calls calls(*one.gpu);
  std::erase_if(one.pending, [&](CudaFunctions::Event event) {
    if (cuda_->query_event(event) == CudaResult::kNotReady) return false;
    one.events.push_back(event);
    return true;
  });
  for (std::size_t i = 0; one.events.empty() || (i > 0 && i < kEventsAtATime); ++i) {
    CudaFunctions::Event made = nullptr;
    const CudaResult result = cuda_->create_event(&made, topology::kCudaEventDisableTiming);
    if (result != CudaResult::kSuccess)
      fail(Cause::kSystem, "GPU {}: make an event: {}", ordinal, cuda_->describe(result));
    one.events.push_back(made);
  }
  const CudaResult result = cuda_->record_event(one.events.back(), stream);
  if (result != CudaResult::kSuccess) {
    const bool theirs = blames_the_stream(result);
    fail(theirs ? Cause::kInvalidUsage : Cause::kSystem, "GPU {}: record an event on {}: {}{}", ordinal,
         stream == nullptr ? std::string("the default stream") : fmt::format("stream {}", stream),
         cuda_->describe(result),
         theirs ? "; the stream must be one of that GPU's primary context, must live, and no graph may be "
                  "captured of it"
                : "; see which call of this program on that GPU failed first");
  }
  const CudaFunctions::Event event = one.events.back();
  one.events.pop_back();
  return event;
}

CudaResult Staging::ask(int ordinal, CudaFunctions::Event event) noexcept {
  const std::lock_guard guard(lock_);
  const Calls calls(*gpus_.at(ordinal).gpu);
  return cuda_->query_event(event);
}

void Staging::give_back(int ordinal, CudaFunctions::Event event) noexcept {
  const std::lock_guard guard(lock_);
  gpus_.at(ordinal).pending.push_back(event);
}

Block Staging::take(int ordinal, std::size_t bytes) {
  const std::size_t wanted = std::bit_ceil(std::max(bytes, kLeastBlock));
  const std::lock_guard guard(lock_);
  Locked* best = nullptr;
  for (Locked& one : memory_)
    if (!one.used && one.block.bytes >= wanted && (best == nullptr || one.block.bytes < best->block.bytes))
      best = &one;
  if (best != nullptr) {
    best->used = true;
    return best->block;
  }
  memory_.reserve(memory_.size() + 1);
  Locked made{{nullptr, wanted}, one_of(ordinal).gpu, true};
  void* memory = nullptr;
  const auto lock = [&] {
    const Calls calls(*made.gpu);
    return cuda_->allocate_host(&memory, wanted,
                                topology::kCudaHostAllocPortable | topology::kCudaHostAllocDeviceMap);
  };
  CudaResult result = lock();
  if (result != CudaResult::kSuccess && free_unused()) result = lock();
  if (result != CudaResult::kSuccess) {
    fail(Cause::kSystem,
         "GPU {}: lock {} of host memory, through which {} of GPU memory are staged: {}; leave more memory "
         "free, or call with fewer elements at a time",
         ordinal, format_size(wanted), format_size(bytes), cuda_->describe(result));
  }
  made.block.data = static_cast<std::byte*>(memory);
  memory_.push_back(made);
  return made.block;
}

void Staging::give_back(Block block) noexcept {
  const std::lock_guard guard(lock_);
  for (Locked& one : memory_)
    if (one.block.data == block.data) one.used = false;
}

bool Staging::free_unused() noexcept {
  return std::erase_if(memory_, [&](const Locked& one) {
           if (one.used || !one.gpu->usable()) return false;
           const Calls calls(*one.gpu);
           cuda_->free_host(one.block.data);
           return true;
         }) > 0;
}

}  // namespace tombolo::collectives::gpu
