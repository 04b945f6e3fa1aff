// What copies cost in this process, and which of the two ways of a message is the cheaper one by that.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace tombolo::transport::shm {

/// The time of a byte in picoseconds, as copies took it lately; 0 while there was none. Each copy moves it by
/// at most an eighth: one in whose midst the process lost its processor says little, and neither does a first
/// one into memory that the other end has not touched for a while.
class CopyCost {
 public:
  /// Copies that are shorter than this are not counted: reading the clock would take too large a part of
  /// them.
  static constexpr std::size_t kLeast = 16 * 1024;

  void add(Duration took, std::size_t bytes) noexcept {
    const auto picoseconds =
        static_cast<std::uint64_t>(std::max<Duration::rep>(took / std::chrono::nanoseconds(1), 0)) * 1000;
    const auto seen =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(picoseconds / bytes, 1, 1'000'000));
    const std::uint32_t step = value_ / 8 + 1;
    value_ = value_ == 0 ? seen : std::clamp(seen, value_ - std::min(value_ - 1, step), value_ + step);
  }
  std::uint32_t value() const noexcept { return value_; }

 private:
  std::uint32_t value_ = 0;
};

/// Which way the next part of a large message takes. Through the ring, the two ends copy at the same time, so
/// that the slower copy counts. The receiver reading the sender's memory copies once, by itself.
class WayChoice {
 public:
  enum class Way { kRing, kRead };

  /// Now and then a part takes the way that seems dearer, because what copies cost changes, as when a virtual
  /// machine's processors are moved. Of so many bytes at most 256 KiB do.
  static constexpr std::size_t kTryEvery = std::size_t{8} << 20;

  /// `in`, `out`: costs of the copies into the ring and out of it; `read`: of reading. 0: not known.
  Way next(std::uint32_t in, std::uint32_t out, std::uint32_t read) const noexcept {
    const bool ring = in == 0 || out == 0 || read == 0 || std::max(in, out) <= read;
    return ring != (since_ >= kTryEvery) ? Way::kRing : Way::kRead;
  }
  /// That many bytes went the way that next() gave, or had to take the other one.
  void went(std::size_t bytes) noexcept { since_ = since_ >= kTryEvery ? 0 : since_ + bytes; }

 private:
  std::size_t since_ = kTryEvery - (std::size_t{1} << 18);  // the first attempt comes soon
};

}  // namespace tombolo::transport::shm
