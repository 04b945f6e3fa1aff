// For tests whose cases are random, in every room. A failing test prints the seed that it drew and the
// command that repeats it; the environment variable TOMBOLO_TEST_SEED gives all of them a seed.
#pragma once

#include <errno.h>
#include <gtest/gtest.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/sanitizer.h"

namespace tombolo {

inline constexpr const char* kTestSeedVariable = "TOMBOLO_TEST_SEED";

/// Throws std::runtime_error unless the text is a number of 32 bits.
inline unsigned parse_test_seed(std::string_view text) {
  unsigned seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw std::runtime_error(std::string(kTestSeedVariable) + "='" + std::string(text) +
                             "' is no seed: give a number from 0 to 4294967295, or unset it");
  }
  return seed;
}

/// TOMBOLO_TEST_SEED; nothing where it is unset or empty.
inline std::optional<unsigned> test_seed_from_environment() {
  const char* given = std::getenv(kTestSeedVariable);
  if (given == nullptr || *given == '\0') return std::nullopt;
  return parse_test_seed(given);
}

/// Remembers the seed of the running test, and reports it where that test fails.
class TestSeedReporter : public testing::EmptyTestEventListener {
 public:
  static TestSeedReporter& instance() {
    static auto* const reporter = [] {
      auto* made = new TestSeedReporter;
      testing::UnitTest::GetInstance()->listeners().Append(made);  // which owns it from now on
      return made;
    }();
    return *reporter;
  }

  /// The seed of the running test: the same however often it is asked for, so that one number repeats the
  /// whole test.
  unsigned draw(std::optional<unsigned> fixed) {
    if (seed_) return *seed_;
    const std::optional<unsigned> given = test_seed_from_environment();
    seed_ = given ? *given : fixed ? *fixed : std::random_device{}();
    // The seed is printed now, because a test that crashes or hangs reports no failure. A fixed seed is known
    // anyway.
    if (given || !fixed) std::printf("%s=%u\n", kTestSeedVariable, *seed_);
    std::fflush(stdout);  // before a fork, which would print it twice
    return *seed_;
  }

  void OnTestEnd(const testing::TestInfo& test) override {
    if (seed_ && test.result()->Failed()) {
      std::printf("To repeat this failure: %s=%u %s --gtest_filter=%s.%s\n", kTestSeedVariable, *seed_,
                  program_invocation_short_name, test.test_suite_name(), test.name());
      std::fflush(stdout);
    }
    seed_.reset();
  }

 private:
  std::optional<unsigned> seed_;
};

/// TOMBOLO_TEST_SEED, or else a fresh seed. Call it in a test's own thread, before it forks.
inline unsigned test_seed() {
  return TestSeedReporter::instance().draw(std::nullopt);
}

/// TOMBOLO_TEST_SEED, or else a seed that is always the same, for tests whose cases should not change from
/// run to run.
inline unsigned test_seed(unsigned fixed) {
  return TestSeedReporter::instance().draw(fixed);
}

/// How many rounds a randomised test makes: fewer under a sanitizer, which finds its errors in the first
/// rounds and makes each several times as long.
constexpr int test_rounds(int rounds) {
  return kSanitized ? (rounds + 5) / 6 : rounds;
}

}  // namespace tombolo
