// For randomised tests of every room.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <random>

#include "base/sanitizer.h"

namespace tombolo {

/// From TOMBOLO_TEST_SEED or at random; printed, so that a failure can be repeated.
inline unsigned test_seed() {
  const char* given = std::getenv("TOMBOLO_TEST_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  std::printf("TOMBOLO_TEST_SEED=%u\n", seed);
  return seed;
}

/// How often a randomised test repeats itself: a sanitizer finds in the first rounds what it finds, and each
/// takes it several times as long.
constexpr int test_rounds(int rounds) {
  return kSanitized ? (rounds + 5) / 6 : rounds;
}

}  // namespace tombolo
