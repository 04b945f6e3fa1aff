// What the communicators of a process that stage GPU memory share: of each GPU a context, its copies, kernels
// and events; and page-locked memory.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "collectives/gpu/kernels.h"
#include "transport/gpu/copier.h"

namespace tombolo::collectives::gpu {

using topology::CudaFunctions;
using topology::CudaResult;
using transport::gpu::Copier;
using transport::gpu::Gpu;

/// Page-locked memory for one call.
struct Block {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// Threads: any. What it makes, which takes long, it keeps for the next call: memory, events.
class Staging {
 public:
  /// That of the process, for its program_driver(), which there must be. It lives for as long as somebody
  /// holds it.
  static std::shared_ptr<Staging> of_process();

  /// `copy_time`: what the end of a call gives to its copies under way.
  explicit Staging(std::shared_ptr<const CudaFunctions> cuda, Duration copy_time = std::chrono::seconds(10))
      : cuda_(std::move(cuda)), copy_time_(copy_time) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  Duration copy_time() const noexcept { return copy_time_; }

  /// Copies in the GPU's primary context, which is the program's. Lives as long as this. Throws kSystem.
  Copier& copier_of(int ordinal);
  /// The same of kernels, of which the library has some (kernel_image()). Where none was asked for before it
  /// loads them, which may wait for what runs on the GPU. Throws kSystem.
  Kernels& kernels_of(int ordinal);

  /// An event that happens once what is on the stream now has run; null: the default stream. Throws
  /// kInvalidUsage where the stream cannot be waited for, kSystem where CUDA refuses otherwise.
  CudaFunctions::Event record(int ordinal, CudaFunctions::Stream stream);
  /// kNotReady while it has not happened. Any other result than kSuccess: what ran before has failed.
  CudaResult ask(int ordinal, CudaFunctions::Event event) noexcept;
  /// For other calls, once it has happened.
  void give_back(int ordinal, CudaFunctions::Event event) noexcept;

  /// At least that much memory, locked through that GPU. Throws kSystem.
  Block take(int ordinal, std::size_t bytes);
  void give_back(Block block) noexcept;
  /// Where that GPU's kernels see the block. Throws kSystem.
  std::byte* seen_by(int ordinal, Block block);

 private:
  /// Copies under way of each direction: enough that the next has begun when one ends.
  static constexpr std::size_t kCopies = 4;
  struct One {
    std::shared_ptr<const Gpu> gpu;
    std::unique_ptr<Copier> copier;
    std::unique_ptr<Kernels> kernels;
    std::vector<CudaFunctions::Event> events, pending;  ///< free ones; those that have not happened yet
  };
  struct Locked {
    Block block;
    std::shared_ptr<const Gpu> gpu;
    bool used = false;
  };

  One& one_of(int ordinal);
  bool free_unused() noexcept;

  std::shared_ptr<const CudaFunctions> cuda_;
  const Duration copy_time_;
  std::mutex lock_;  // protects all below
  std::map<int, One> gpus_;
  std::vector<Locked> memory_;
};

}  // namespace tombolo::collectives::gpu
