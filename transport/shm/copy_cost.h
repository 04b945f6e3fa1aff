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

/// What a byte costs the two ends by each way, in picoseconds; 0: not known.
struct CopyCosts {
  std::uint32_t into_ring = 0, announcing = 0;  ///< the writer
  std::uint32_t out_of_ring = 0, reading = 0;   ///< the reader
  bool in_turns = false;                        ///< both run on one processor, so that no copies overlap
};

/// Which way the next part of a large message takes. Any thread may use it.
class WayChoice {
 public:
  enum class Way { kRing, kRead };
  struct Choice {
    Way way = Way::kRing;
    bool trial = false;     ///< to learn what this way costs, which else nothing takes
    bool hopeless = false;  ///< a trial of a way that takes more than kHopeless times as long as the other
    double share = 1;       ///< of all bytes, that is to go through the ring
  };

  /// Now and then some parts take the way that nothing else takes, because what copies cost changes, as when
  /// a virtual machine's processors are moved: after so many bytes kTrial. A single part would say little:
  /// until messages come from the same buffers again, these, and what the kernel knows of them, are not in
  /// the caches, and to read them takes two to three times as long. The first trial finds them so, therefore
  /// the next one comes after twice kFirstGap, and each further one after twice as much.
  static constexpr std::size_t kTryEvery = std::size_t{2} << 30;
  static constexpr std::size_t kFirstGap = std::size_t{64} << 20;
  static constexpr std::size_t kTrial = std::size_t{16} << 20;
  /// A trial ends after this many bytes where they took more than four times as long as the other way does,
  /// since caches explain three times. Between near processors reading does, and the first two trials held up
  /// 400 MB of 1 MiB each by a quarter.
  static constexpr std::size_t kShortTrial = std::size_t{2} << 20;
  static constexpr double kHopeless = 4;
  /// Of the time of the better way alone: what both ways together may take at most.
  static constexpr double kWorthBoth = 0.8;

  /// The share of the bytes that is to go through the ring, so that all take the least time. In turns that is
  /// the sum of what the two ends do, of which one way alone makes the least. Else it is what the end does
  /// that has more to do, and both ends are busy all the time where the share s obeys
  /// s * into_ring + (1 - s) * announcing = s * out_of_ring + (1 - s) * reading. A part that is read holds up
  /// what comes behind it, which these costs do not say: where that should have saved 14 % of the time it
  /// cost 20 % (256 and 512 KiB on one connection between near processors, AMD EPYC, family 25, model 17), so
  /// both ways are taken only where that saves a fifth. 1 where a cost is not known.
  static double share_of_ring(const CopyCosts& costs) noexcept {
    if (!knows(costs)) return 1;
    const double in = costs.into_ring, announcing = costs.announcing, out = costs.out_of_ring,
                 reading = costs.reading;
    if (costs.in_turns) return time_alone(costs, Way::kRing) <= time_alone(costs, Way::kRead) ? 1 : 0;
    const auto slower_end = [&](double share) {
      return std::max(share * in + (1 - share) * announcing, share * out + (1 - share) * reading);
    };
    const double alone = slower_end(1) <= slower_end(0) ? 1 : 0;
    const double apart = (in - announcing) + (reading - out);
    const double share = apart != 0 ? (reading - announcing) / apart : alone;
    const bool worth = share > 0 && share < 1 && slower_end(share) <= kWorthBoth * slower_end(alone);
    return worth ? share : alone;
  }
  Choice next(const CopyCosts& costs) const noexcept {
    Choice choice;
    choice.share = share_of_ring(costs);
    const bool alone = choice.share == 0 || choice.share == 1;
    choice.trial = alone && since_.load(std::memory_order_relaxed) >= gap_.load(std::memory_order_relaxed);
    const bool ring =
        alone ? (choice.share == 1) != choice.trial : excess_.load(std::memory_order_relaxed) <= 0;
    choice.way = ring ? Way::kRing : Way::kRead;
    if (choice.trial && knows(costs))
      choice.hopeless =
          time_alone(costs, choice.way) > kHopeless * time_alone(costs, ring ? Way::kRead : Way::kRing);
    return choice;
  }
  /// A trial begins with the next part that one way alone would take.
  void try_now() noexcept { since_.store(gap_.load(std::memory_order_relaxed), std::memory_order_relaxed); }
  /// That many bytes went the way of the choice, or had to take the other one.
  void went(const Choice& choice, std::size_t bytes) noexcept {
    if (choice.share == 0 || choice.share == 1) {
      excess_.store(0, std::memory_order_relaxed);
      const std::size_t since = since_.load(std::memory_order_relaxed) + bytes;
      const std::size_t gap = gap_.load(std::memory_order_relaxed);
      const bool tried = since >= gap + (choice.hopeless ? kShortTrial : kTrial);
      since_.store(tried ? 0 : since, std::memory_order_relaxed);
      if (tried) gap_.store(std::min(2 * gap, kTryEvery), std::memory_order_relaxed);
      return;
    }
    const double due = choice.share * static_cast<double>(bytes);
    const double went = choice.way == Way::kRing ? static_cast<double>(bytes) : 0;
    excess_.fetch_add(static_cast<std::int64_t>(went - due), std::memory_order_relaxed);
  }

 private:
  static bool knows(const CopyCosts& costs) noexcept {
    return costs.into_ring != 0 && costs.out_of_ring != 0 && costs.reading != 0;
  }
  /// Of a byte, where all go that way.
  static double time_alone(const CopyCosts& costs, Way way) noexcept {
    const double writer = way == Way::kRing ? costs.into_ring : costs.announcing;
    const double reader = way == Way::kRing ? costs.out_of_ring : costs.reading;
    return costs.in_turns ? writer + reader : std::max(writer, reader);
  }

  // The first attempt comes soon, but after some laps in the ring, whose first one is slow.
  std::atomic<std::size_t> since_{kFirstGap - (std::size_t{4} << 20)};
  std::atomic<std::size_t> gap_{kFirstGap};
  std::atomic<std::int64_t> excess_{0};  // bytes that went through the ring beyond its share
};

/// What this process knows of its copies to and from one other process. All their connections share it: they
/// use the same caches, and what one has learned another need not pay for.
struct CopyBook {
  CopyCost into_ring, announcing, out_of_ring, reading;
  WayChoice choice;

  /// The one for that process, as long as any connection has it.
  static std::shared_ptr<CopyBook> of(std::int64_t process);
};

}  // namespace tombolo::transport::shm
