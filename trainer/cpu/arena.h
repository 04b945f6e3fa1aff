// The memory of a stage: one allocation per purpose, divided into tensors when the stage is made.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace tombolo::trainer::cpu {

/// Zeroed floats, aligned to 64 bytes. Throws kSystem naming `what` and the size.
class Arena {
 public:
  Arena() = default;
  Arena(std::size_t floats, std::string_view what);

  std::span<float> all() const noexcept { return {data_.get(), size_}; }
  float* data() const noexcept { return data_.get(); }
  std::size_t bytes() const noexcept { return size_ * sizeof(float); }

  static constexpr std::size_t kAlignment = 16;  ///< floats
  static constexpr std::size_t aligned(std::size_t floats) noexcept {
    return (floats + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  struct Free {
    void operator()(float* data) const noexcept;
  };
  std::unique_ptr<float[], Free> data_;
  std::size_t size_ = 0;
};

/// Hands out consecutive pieces of an arena. With a null base it only counts, so that the same code computes
/// the size first and then lays out the pieces.
class Carver {
 public:
  explicit Carver(float* base) noexcept : base_(base) {}
  float* take(std::size_t floats) noexcept {
    float* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += Arena::aligned(floats);
    return piece;
  }
  std::size_t used() const noexcept { return used_; }

 private:
  float* base_;
  std::size_t used_ = 0;
};

}  // namespace tombolo::trainer::cpu
