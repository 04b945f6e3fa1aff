#include "collectives/host/way_choice.h"

#include <algorithm>
#include <bit>

namespace tombolo::collectives {
namespace {

constexpr double kMostRise = 1.25;
/// Calls between two looks at the slower way: at first few, since the first call of either way may have
/// waited for something else. A look at a way that takes four times as long costs 5 % of the calls' time.
constexpr std::uint8_t kMostUntilLook = 64;

}  // namespace

void WayChoice::choose() noexcept {
  for (const HostWay way : {HostWay::kFromBuffers, HostWay::kThroughSlots}) {
    if (known(way) > 0) continue;
    way_ = way;
    return;
  }
  const bool slots = known(HostWay::kThroughSlots) < known(HostWay::kFromBuffers);
  const bool look = ++since_look_ >= until_look_;
  if (look) {
    since_look_ = 0;
    until_look_ = static_cast<std::uint8_t>(std::min(until_look_ * 2, int{kMostUntilLook}));
  }
  way_ = slots != look ? HostWay::kThroughSlots : HostWay::kFromBuffers;
}

void WayChoice::measured(HostWay way, Duration took, std::size_t bytes) noexcept {
  double& before = known(way);
  const double now = std::max(to_seconds(took), 1e-9) / static_cast<double>(bytes);
  before = before > 0 ? std::min(now, before * kMostRise) : now;
}

WayChoice& WayChoices::at(std::size_t row, std::size_t bytes) noexcept {
  const auto power = static_cast<std::size_t>(std::bit_width(bytes == 0 ? 0 : bytes - 1));
  const std::size_t size = std::clamp(power, kLeast, kLeast + kSizes - 1) - kLeast;
  return choices_[row][size];
}

}  // namespace tombolo::collectives
