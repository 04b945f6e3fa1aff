#include "base/parameter.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace tombolo {
namespace {

constexpr Parameter kSeconds{"TOMBOLO_TEST_SECONDS", ParameterType::kSeconds, "2.5", "A test."};
constexpr Parameter kChoice{"TOMBOLO_TEST_CHOICE", ParameterType::kChoice, "red", "A test.", "red|blue"};

TEST(Parameter, GivesTheDefaultUntilTheEnvironmentSetsIt) {
  ::unsetenv("TOMBOLO_TEST_SECONDS");
  EXPECT_FALSE(kSeconds.is_set());
  EXPECT_DOUBLE_EQ(kSeconds.seconds(), 2.5);
  ::setenv("TOMBOLO_TEST_SECONDS", "7", 1);
  EXPECT_TRUE(kSeconds.is_set());
  EXPECT_DOUBLE_EQ(kSeconds.seconds(), 7);
  ::unsetenv("TOMBOLO_TEST_SECONDS");
}

TEST(Parameter, NamesTheVariableAndItsValueWhenItDoesNotParse) {
  ::setenv("TOMBOLO_TEST_CHOICE", "green", 1);
  try {
    kChoice.choice();
    FAIL();
  } catch (const Error& error) {
    std::string text = error.what();
    EXPECT_NE(text.find("TOMBOLO_TEST_CHOICE='green'"), std::string::npos) << text;
    EXPECT_NE(text.find("red|blue"), std::string::npos) << text;
  }
  ::unsetenv("TOMBOLO_TEST_CHOICE");
  EXPECT_EQ(kChoice.choice(), "red");
}

TEST(Parameter, RejectsNegativeSeconds) {
  ::setenv("TOMBOLO_TEST_SECONDS", "-1", 1);
  EXPECT_THROW(kSeconds.seconds(), Error);
  ::unsetenv("TOMBOLO_TEST_SECONDS");
}

}  // namespace
}  // namespace tombolo
