#include "planner/simulate/log_line.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tombolo::planner {
namespace {

TEST(LogLine, FindsTheNumberAfterATitle) {
  EXPECT_EQ(number_after("tps:", "mfu: 3 tps:  7,012  tflops: 1"), 7012);
  EXPECT_EQ(number_after("rate=", "rate=118.5, memory=3"), 118.5);
  EXPECT_EQ(number_after("rate=", "rate=1,234,567"), 1234567);
  EXPECT_EQ(number_after("a:", "a: 1.5e+03|"), 1500);
  EXPECT_EQ(number_after("a:", "a: 0.0 |"), 0);
  EXPECT_EQ(number_after("a:", "b: 1"), std::nullopt);
}

TEST(LogLine, TakesNothingElseForANumber) {
  for (const char* text :
       {"a:", "a: ", "a: soon", "a: nan", "a: inf", "a: -3", "a: 1e300", "a: 1e-300", "a: 43[default3]: step",
        "a: 12x", "a: 1.2.3", "a: 1e", "a: 999999999999999999999999999999999999999999999999999999"}) {
    const auto number = number_after("a:", text);
    EXPECT_TRUE(number && std::isnan(*number)) << text;
    EXPECT_EQ(count_after("a:", text), 0) << text;
    EXPECT_EQ(step_number_after("a:", text), -1) << text;
    std::string problem;
    EXPECT_EQ(figure_after("a:", text, false, problem), 0) << text;
    EXPECT_NE(problem.find("expected a number > 0"), std::string::npos) << text;
  }
}

TEST(LogLine, AFigureThatMayBeMissingMayBeZeroToo) {
  std::string problem;
  EXPECT_EQ(figure_after("a:", "b: 1", false, problem), 0);
  EXPECT_EQ(figure_after("a:", "a: 0.0 |", false, problem), 0);
  EXPECT_EQ(problem, "");
  EXPECT_EQ(figure_after("a:", "a: 0.0 |", true, problem), 0);
  EXPECT_EQ(problem, "\"a:\" is followed by \"0.0 |\", expected a number > 0");
  EXPECT_EQ(figure_after("a:", "b: 1", true, problem), 0);
  EXPECT_EQ(problem, "\"a:\" is missing");
}

}  // namespace
}  // namespace tombolo::planner
