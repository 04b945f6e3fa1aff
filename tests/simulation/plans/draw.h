// Random decisions of a plan: the same on every machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>

#include "base/clock.h"

namespace tombolo::simulation {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15U + 1) {}
  /// From 0 to most - 1. Not std::uniform_int_distribution, which differs between libraries.
  std::uint64_t below(std::uint64_t most) { return random_() % most; }
  bool once_in(unsigned times) { return below(times) == 0; }
  Duration duration(Duration most) {
    return Duration(static_cast<Duration::rep>(below(static_cast<std::uint64_t>(most.count()))));
  }
  template <typename T, std::size_t N>
  T one_of(const std::array<T, N>& all) {
    return all[below(N)];
  }

 private:
  std::mt19937_64 random_;
};

/// The size of a message: all orders of magnitude up to 300 000 bytes, and none.
inline std::size_t draw_size(Draw& draw) {
  switch (draw.below(8)) {
    case 0:
      return 0;
    case 1:
    case 2:
      return 1 + draw.below(64);
    case 3:
    case 4:
      return draw.below(4096);
    case 5:
    case 6:
      return draw.below(40'000);
    default:
      return draw.below(300'000);
  }
}

}  // namespace tombolo::simulation
