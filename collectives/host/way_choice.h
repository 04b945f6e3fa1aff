// Which of two ways large calls of a host's ranks go, by how long each took of late: through slots, or
// straight from the other's buffer.
//
// Neither is always the faster one. Slots are copied twice, by both ranks at once and with the processor's
// own instructions; buffers once, by the kernel, which looks up each page. On two processors of a virtual
// machine (AMD EPYC, family 25, model 17) slots took 0.35 to 0.9 of the time while both were near the same
// cache, and four times as long while its host had them far apart, which changed from minute to minute.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "collectives/host/rank_memory.h"

namespace tombolo::collectives {

/// How the bytes of a call get from rank to rank.
enum class HostWay : std::uint8_t { kThroughSlots, kFromBuffers };

/// The choice for calls that are alike. One rank, their leader, makes it in each call for the next one, and
/// says so in its announcements, which all ranks read in that call: so all know it before the next one
/// begins.
class WayChoice {
 public:
  /// Of the next call, as it was last chosen; of the first call the one given.
  HostWay way_or(HostWay first) const noexcept { return way_.value_or(first); }
  /// What the leader has announced.
  void set(HostWay way) noexcept { way_ = way; }
  /// The leader chooses: the faster way, but the other one now and then, to see whether that is still the
  /// slower one.
  void choose() noexcept;
  /// What a call of this leader with so many bytes (1 or more) took: calls of unlike sizes are compared by
  /// the byte. One that took longer than those before may have waited for something else: it counts for a
  /// quarter more than was known. One that took less counts in full.
  void measured(HostWay way, Duration took, std::size_t bytes) noexcept;

 private:
  double& known(HostWay way) noexcept { return known_[static_cast<std::size_t>(way)]; }

  std::optional<HostWay> way_;
  std::uint8_t since_look_ = 0, until_look_ = 4;  // calls
  std::array<double, 2> known_{};                 // seconds per byte; 0: not measured so far
};

/// Choices by what a call is: a row for each collective and leader, and in it its bytes up to the next power
/// of two.
class WayChoices {
 public:
  static constexpr std::size_t kRows = 9 + kMostHostRanks;
  WayChoice& at(std::size_t row, std::size_t bytes) noexcept;

 private:
  static constexpr std::size_t kLeast = 13, kSizes = 15;  // powers of two
  std::array<std::array<WayChoice, kSizes>, kRows> choices_{};
};

}  // namespace tombolo::collectives
