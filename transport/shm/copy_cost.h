// What copies between this process and another one of the host cost, and which of the two ways of a large
// message is the cheaper one by that.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/clock.h"

namespace tombolo::transport::shm {

/// The time of a byte in picoseconds, as copies took it lately; 0 while there was none. What disturbs a
/// copy, as a process that loses its processor or memory that is touched for the first time, only makes it
/// longer. So a shorter one moves the value half the way, and a longer one by at most an eighth. Any thread
/// may use it; of two copies that end at once, one may be lost.
class CopyCost {
 public:
  /// Copies that are shorter than this are not counted: reading the clock would take too large a part of
  /// them.
  static constexpr std::size_t kLeast = 32 * 1024;

  void add(Duration took, std::size_t bytes) noexcept {
    const auto picoseconds =
        static_cast<std::uint64_t>(std::max<Duration::rep>(took / std::chrono::nanoseconds(1), 0)) * 1000;
    const auto seen =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(picoseconds / bytes, 1, 1'000'000));
    const std::uint32_t before = value();
    const std::uint32_t after = before == 0     ? seen
                                : seen < before ? (before + seen) / 2
                                                : std::min(seen, before + before / 8 + 1);
    value_.store(after, std::memory_order_relaxed);
  }
  std::uint32_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> value_{0};
};

/// Which way the next part of a large message takes. Through the ring, the two ends copy at the same time, so
/// that the slower copy counts. The receiver reading the sender's memory copies once, by itself. Any thread
/// may use it.
class WayChoice {
 public:
  enum class Way { kRing, kRead };
  struct Choice {
    Way way = Way::kRing;
    bool trial = false;  ///< this is the way that seems dearer
  };

  /// Now and then a part takes the way that seems dearer, because what copies cost changes, as when a virtual
  /// machine's processors are moved: of so many bytes kTrial.
  static constexpr std::size_t kTryEvery = std::size_t{16} << 20;
  static constexpr std::size_t kTrial = std::size_t{64} << 10;

  /// `in`, `out`: costs of the copies into the ring and out of it; `read`: of reading. 0: not known.
  Choice next(std::uint32_t in, std::uint32_t out, std::uint32_t read) const noexcept {
    const bool ring = in == 0 || out == 0 || read == 0 || std::max(in, out) <= read;
    const bool trial = since_.load(std::memory_order_relaxed) >= kTryEvery;
    return {ring != trial ? Way::kRing : Way::kRead, trial};
  }
  /// That many bytes went the way of the choice, or had to take the other one.
  void went(const Choice& choice, std::size_t bytes) noexcept {
    if (choice.trial)
      since_.store(0, std::memory_order_relaxed);
    else
      since_.fetch_add(bytes, std::memory_order_relaxed);
  }

 private:
  // The first attempt comes soon, but after some laps in the ring, whose first one is slow.
  std::atomic<std::size_t> since_{kTryEvery - (std::size_t{4} << 20)};
};

/// What this process knows of its copies to and from one other process. All their connections share it: they
/// use the same caches, and what one has learned another need not pay for.
struct CopyBook {
  CopyCost into_ring, out_of_ring, reading;
  WayChoice choice;

  /// The one for that process, as long as any connection has it.
  static std::shared_ptr<CopyBook> of(std::int64_t process);
};

}  // namespace tombolo::transport::shm
