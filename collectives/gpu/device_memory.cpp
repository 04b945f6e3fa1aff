#include "collectives/gpu/device_memory.h"

#include <link.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>

namespace tombolo::collectives::gpu {
namespace {

using topology::CudaFunctions;
using topology::CudaMemoryType;
using topology::CudaPointerAttribute;
using topology::CudaResult;
using Driver = std::shared_ptr<const CudaFunctions>;

/// How many libraries the process has ever loaded.
std::uint64_t libraries_loaded() noexcept {
  std::uint64_t count = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* first, std::size_t, void* to) {
        *static_cast<std::uint64_t*>(to) = first->dlpi_adds;
        return 1;  // of this object alone
      },
      &count);
  return count;
}

}  // namespace

const Driver& program_driver() noexcept {
  static const Driver none;
  static std::atomic<const Driver*> found{nullptr};  // for as long as the process lives
  static std::atomic<std::uint64_t> looked_among{0};
  if (const Driver* driver = found.load(std::memory_order_acquire)) return *driver;
  const std::uint64_t loaded = libraries_loaded();
  if (loaded == looked_among.load(std::memory_order_relaxed)) return none;
  static std::mutex lock;
  const std::lock_guard guard(lock);
  if (const Driver* driver = found.load(std::memory_order_acquire)) return *driver;
  try {
    if (Driver driver = CudaFunctions::of_program()) {
      found.store(new Driver(std::move(driver)), std::memory_order_release);
      return *found.load(std::memory_order_relaxed);
    }
  } catch (const std::exception&) {  // out of memory: another call looks again
    return none;
  }
  looked_among.store(loaded, std::memory_order_relaxed);
  return none;
}

std::optional<int> gpu_of(const void* address) noexcept {
  const Driver& cuda = program_driver();
  if (cuda == nullptr || address == nullptr) return std::nullopt;
  const auto at = reinterpret_cast<CudaFunctions::Address>(address);
  auto type = CudaMemoryType::kUnknown;
  int ordinal = 0;
  if (cuda->pointer_attribute(&type, CudaPointerAttribute::kMemoryType, at) != CudaResult::kSuccess ||
      type != CudaMemoryType::kDevice ||
      cuda->pointer_attribute(&ordinal, CudaPointerAttribute::kDeviceOrdinal, at) != CudaResult::kSuccess)
    return std::nullopt;
  return ordinal;
}

}  // namespace tombolo::collectives::gpu
