// Runs a part of a test in a process of its own, with its own environment.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <string>

namespace tombolo::tests {

/// Forks, sets these variables (an empty value unsets one) and runs `body`. Expects that it has no failures,
/// throws nothing, and ends. Call it where the process has one thread.
inline void in_child(const std::map<std::string, std::string>& environment,
                     const std::function<void()>& body) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (const auto& [name, value] : environment) {
      if (value.empty())
        ::unsetenv(name.c_str());
      else
        ::setenv(name.c_str(), value.c_str(), 1);
    }
    int code = 0;
    try {
      body();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    if (testing::Test::HasFailure()) code = 1;
    std::fflush(nullptr);
    std::_Exit(code);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the child's status is " << status;
}

}  // namespace tombolo::tests
