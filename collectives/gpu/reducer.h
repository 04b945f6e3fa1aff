// Steps of one call's reduction, carried out by its GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "collectives/data/premultiply.h"
#include "collectives/gpu/kernels.h"

namespace tombolo::collectives::gpu {

/// Elements of this many bytes and more are worth a kernel: it takes some microseconds to begin, in which a
/// processor is done with fewer.
inline constexpr std::size_t kReduceFrom = std::size_t{128} << 10;

/// How two elements are combined, one of which may be multiplied first.
Operation operation_of(ReduceOp op, Premultiplied premultiplied) noexcept;

/// A step, on host memory.
struct Reduction {
  std::byte* target = nullptr;
  const std::byte* left = nullptr;
  const std::byte* right = nullptr;  ///< not read by kMultiply and kDivide
  std::size_t count = 0;             ///< of elements
  DataType type = DataType::kInt8;
  Operation operation = Operation::kSum;
  std::uint64_t operand = 0;  ///< as ReductionArguments::operand
};

/// Kernels read and write the page-locked host memory in which the call is carried out. One thread at a time;
/// nothing here waits.
class Reducer {
 public:
  /// `kernels` must outlive it; `least`: bytes of a step that is worth a kernel.
  Reducer(Kernels& kernels, std::size_t least) : kernels_(kernels), least_(least) {}
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// Kernels may use that memory, which the GPU sees at `at_gpu`.
  void add(const std::byte* host, std::size_t bytes, std::byte* at_gpu) {
    memory_.push_back({host, bytes, at_gpu});
  }

  /// Begins it; next_done() gives `step` back. False where the processor has to do it: it is too small, not
  /// in that memory, not aligned to its elements, or as many kernels are under way as may be.
  bool start(const Reduction& reduction, std::uint32_t step);
  /// A step that is done and has not been given yet. Nothing any more once one has failed.
  std::optional<std::uint32_t> next_done();

  bool is_under_way() const noexcept { return !launched_.empty() && failure_.empty(); }
  /// What failed; empty while nothing has.
  const std::string& failure() const noexcept { return failure_; }
  /// "kernel tombolo_reduce_float (sum, 1048576 bytes) on GPU 0": of the oldest that is under way; for
  /// errors.
  std::string describe() const;
  /// Looks, and tells whether a kernel may still touch the memory.
  bool touches_memory() noexcept;

 private:
  struct Memory {
    const std::byte* host = nullptr;
    std::size_t bytes = 0;
    std::byte* at_gpu = nullptr;
  };
  struct Launched {
    transport::gpu::Queued queued;
    std::uint32_t step = 0;
    Reduction reduction;
  };

  /// Null where the GPU does not see it.
  std::byte* at_gpu(const std::byte* host, std::size_t bytes) const noexcept;

  Kernels& kernels_;
  const std::size_t least_;
  std::vector<Memory> memory_;
  std::deque<Launched> launched_;  // and not given as done; they end in this order
  std::string failure_;
};

}  // namespace tombolo::collectives::gpu
