// What the tests of several folders of tools/ need: the text of an error, and variables that are put back.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"

namespace tombolo::tools {

/// The text of the error that `action` throws, which must be of this cause; "no error" where it throws none.
template <typename Action>
std::string error_of(Action&& action, Cause cause = Cause::kInvalidUsage) {
  try {
    std::forward<Action>(action)();
  } catch (const Error& error) {
    EXPECT_EQ(cause_name(error.cause()), cause_name(cause)) << error.what();
    return error.what();
  }
  return "no error";
}

/// An environment variable that has another value, or none, for as long as the object lives.
class TemporaryVariable {
 public:
  explicit TemporaryVariable(const char* name, std::optional<std::string> value = std::nullopt)
      : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~TemporaryVariable() { set(before_); }
  TemporaryVariable(const TemporaryVariable&) = delete;
  TemporaryVariable& operator=(const TemporaryVariable&) = delete;

 private:
  void set(const std::optional<std::string>& value) const {
    if (value) {
      ::setenv(name_, value->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> before_;
};

#define EXPECT_MENTIONS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

}  // namespace tombolo::tools
