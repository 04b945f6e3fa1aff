// What a stage's memory on a device is taken for: planned as a whole before anything is allocated.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tombolo::trainer::cuda {

enum class MemoryUse {
  kParameters,
  kGradients,
  kOptimizer,
  kActivations,  ///< kept for the backward pass, by micro-batch in flight
  kBuffers,      ///< what one pass works in
};

/// One allocation, divided into pieces.
class MemoryPlan {
 public:
  /// Plans a piece and returns where it begins, a multiple of 256 bytes. Pieces of one name share a line of
  /// the table.
  std::size_t take(MemoryUse use, std::string_view name, std::size_t bytes);

  std::size_t bytes() const noexcept { return bytes_; }
  std::size_t bytes(MemoryUse use) const noexcept;
  /// A line per name: pieces, bytes, share of the whole; and the sum. `title` says which memory it is.
  std::string table(std::string_view title) const;

  static constexpr std::size_t kAlignment = 256;

 private:
  struct Line {
    MemoryUse use;
    std::string name;
    std::size_t pieces, bytes;
  };
  std::vector<Line> lines_;
  std::size_t bytes_ = 0;
};

/// Hands out the pieces of a planned allocation. With a null base it only plans, so that the same code first
/// finds the size and then lays out the pieces.
class PlanCarver {
 public:
  PlanCarver(MemoryPlan& plan, std::byte* base) noexcept : plan_(plan), base_(base) {}

  template <typename T>
  T* take(MemoryUse use, std::string_view name, std::size_t count) {
    const std::size_t begin = plan_.take(use, name, count * sizeof(T));
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + begin);
  }

 private:
  MemoryPlan& plan_;
  std::byte* base_;
};

}  // namespace tombolo::trainer::cuda
