#include "tools/demo/options.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tombolo::tools::demo {
namespace {

TEST(DemoOptions, NameTheOneThatCannotBe) {
  auto message_of = [](Options options) {
    try {
      options.check();
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message_of({}), "");
  Options options;
  options.compare_steps = 1;
  EXPECT_NE(message_of(options).find("--compare-steps 1"), std::string::npos);
  options = {};
  options.seconds_limit = 0;
  EXPECT_NE(message_of(options).find("--seconds-limit 0"), std::string::npos);
  options = {};
  options.steps = 0;
  EXPECT_NE(message_of(options).find("--steps 0"), std::string::npos);
}

TEST(DemoOptions, LeaveStepsToMeasureAfterTheWarmUp) {
  for (int steps : {2, 3, 6, 7, 14, 100}) {
    Options options;
    options.compare_steps = steps;
    const Rounds rounds = options.rounds(1);
    EXPECT_GE(rounds.rounds * rounds.steps, steps);
    EXPECT_GE(rounds.warm_up, 1);
    EXPECT_LT(rounds.warm_up, rounds.steps);
  }
}

TEST(DemoOptions, FitTheStepsToTheTime) {
  const Options options;
  EXPECT_EQ(options.rounds(0.01).steps * options.rounds(0.01).rounds, 30);
  EXPECT_EQ(options.rounds(1.5).steps * options.rounds(1.5).rounds, 21);
  EXPECT_EQ(options.rounds(60).steps * options.rounds(60).rounds, 12);
  EXPECT_EQ(options.long_run(0.01), 200);
  EXPECT_EQ(options.long_run(0.2), 100);
  EXPECT_EQ(options.long_run(60), 40);
}

}  // namespace
}  // namespace tombolo::tools::demo
