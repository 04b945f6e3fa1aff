#include "tools/cli/parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "collectives/parameters.h"

namespace tombolo::tools {
namespace {

/// Sets a variable for the life of the object.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

const Parameter& parameter_named(std::string_view name) {
  for (const RoomParameters& room : all_parameters())
    for (const Parameter* parameter : room.parameters)
      if (parameter->name == name) return *parameter;
  throw std::runtime_error("no parameter " + std::string(name));
}

TEST(Parameters, HaveNamesOfTheirOwnThatBeginAlike) {
  std::vector<std::string_view> names;
  for (const RoomParameters& room : all_parameters())
    for (const Parameter* parameter : room.parameters) names.push_back(parameter->name);
  for (const std::string_view name : names) EXPECT_TRUE(name.starts_with("TOMBOLO_")) << name;
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

TEST(Parameters, AnUnusableValueIsNamedAndAnUnsetOneIsFine) {
  const Parameter& deadline = parameter_named("TOMBOLO_DEADLINE");
  EXPECT_FALSE(problem_of(deadline));
  const Variable wrong("TOMBOLO_DEADLINE", "soon");
  ASSERT_TRUE(problem_of(deadline));
  EXPECT_NE(problem_of(deadline)->find("soon"), std::string::npos) << *problem_of(deadline);
}

TEST(Parameters, ASecretIsNotShown) {
  const Parameter& secret = parameter_named(collectives::kSecretParameter.name);
  EXPECT_EQ(shown_value(secret), secret.text());
  const Variable set("TOMBOLO_SECRET", "hush");
  EXPECT_EQ(shown_value(secret), "(hidden)");
}

TEST(Parameters, AVariableThatNothingReadsIsReportedWithTheNearestName) {
  const Variable misspelt("TOMBOLO_DEADLIN", "5");
  const auto lines = unknown_variables();
  const auto found = std::ranges::find_if(
      lines, [](const std::string& line) { return line.starts_with("TOMBOLO_DEADLIN is set"); });
  ASSERT_NE(found, lines.end());
  EXPECT_NE(found->find("did you mean TOMBOLO_DEADLINE?"), std::string::npos) << *found;
}

}  // namespace
}  // namespace tombolo::tools
