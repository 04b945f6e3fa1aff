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

/// The mean time of a byte in picoseconds, as copies took it lately; 0 while there was none. A copy counts
/// for at most twice the mean: one in whose midst the process lost its processor says little. Any thread may
/// use it; of two copies that end at once, one may be lost.
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
    const std::uint32_t after = before == 0      ? seen
                                : seen >= before ? before + (std::min(seen, 2 * before) - before + 7) / 8
                                                 : before - (before - seen + 7) / 8;
    value_.store(after, std::memory_order_relaxed);
  }
  std::uint32_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> value_{0};
};

/// Which way the next part of a large message takes. Any thread may use it.
class WayChoice {
 public:
  enum class Way { kRing, kRead };
  struct Choice {
    Way way = Way::kRing;
    bool trial = false;  ///< to learn what this way costs, which else nothing takes
    double share = 1;    ///< of all bytes, that is to go through the ring
  };

  /// Now and then a part takes the way that nothing else takes, because what copies cost changes, as when a
  /// virtual machine's processors are moved: of so many bytes kTrial.
  static constexpr std::size_t kTryEvery = std::size_t{16} << 20;
  static constexpr std::size_t kTrial = std::size_t{64} << 10;

  /// The share of the bytes that is to go through the ring, so that the two ends together take least. Of a
  /// byte there the writer's copy costs `in` and the reader's `out`, at the same time as other bytes; a byte
  /// that is read costs the reader `read` and the writer nothing. Where both ends are busy all the time, the
  /// share s obeys s * in = s * out + (1 - s) * read. 0: a cost is not known.
  static double share_of_ring(std::uint32_t in, std::uint32_t out, std::uint32_t read) noexcept {
    if (in == 0 || out == 0 || read == 0) return 1;
    if (out >= read) return 0;
    const double share = static_cast<double>(read) / (static_cast<double>(in) + read - out);
    // What a small share of the other way could save, its own beginnings cost.
    return share > 0.875 ? 1 : share < 0.125 ? 0 : share;
  }
  Choice next(std::uint32_t in, std::uint32_t out, std::uint32_t read) const noexcept {
    Choice choice;
    choice.share = share_of_ring(in, out, read);
    const bool alone = choice.share == 0 || choice.share == 1;
    choice.trial = alone && since_.load(std::memory_order_relaxed) >= kTryEvery;
    const bool ring =
        alone ? (choice.share == 1) != choice.trial : excess_.load(std::memory_order_relaxed) <= 0;
    choice.way = ring ? Way::kRing : Way::kRead;
    return choice;
  }
  /// That many bytes went the way of the choice, or had to take the other one.
  void went(const Choice& choice, std::size_t bytes) noexcept {
    if (choice.share == 0 || choice.share == 1) {
      excess_.store(0, std::memory_order_relaxed);
      since_.store(choice.trial ? 0 : since_.load(std::memory_order_relaxed) + bytes,
                   std::memory_order_relaxed);
      return;
    }
    const double due = choice.share * static_cast<double>(bytes);
    const double went = choice.way == Way::kRing ? static_cast<double>(bytes) : 0;
    excess_.fetch_add(static_cast<std::int64_t>(went - due), std::memory_order_relaxed);
  }

 private:
  // The first attempt comes soon, but after some laps in the ring, whose first one is slow.
  std::atomic<std::size_t> since_{kTryEvery - (std::size_t{4} << 20)};
  std::atomic<std::int64_t> excess_{0};  // bytes that went through the ring beyond its share
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
