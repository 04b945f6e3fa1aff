// For randomised tests of every room.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <random>

namespace tombolo {

/// From TOMBOLO_TEST_SEED or at random; printed, so that a failure can be repeated.
inline unsigned test_seed() {
  const char* given = std::getenv("TOMBOLO_TEST_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  std::printf("TOMBOLO_TEST_SEED=%u\n", seed);
  return seed;
}

}  // namespace tombolo
