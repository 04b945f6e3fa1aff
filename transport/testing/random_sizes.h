// Sizes of messages for random tests.
#pragma once

#include <cstddef>
#include <random>

namespace tombolo::transport::test {

/// In equal parts none, a few bytes, up to 5,000, up to 70,000, and up to `most`, at which the ways to carry
/// a message differ.
inline std::size_t random_size(std::mt19937_64& random, std::size_t most) {
  switch (random() % 5) {
    case 0:
      return 0;
    case 1:
      return random() % 64;
    case 2:
      return random() % 5000;
    case 3:
      return random() % 70'000;
    default:
      return random() % most;
  }
}

}  // namespace tombolo::transport::test
