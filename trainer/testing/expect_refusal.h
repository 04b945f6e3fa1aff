// What the tests of the trainer share.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>

#include "base/error.h"

namespace tombolo::trainer::test {

/// Expects that `action` throws an error of `cause` whose text contains all of `words`.
inline void expect_refusal(const std::function<void()>& action, std::initializer_list<const char*> words,
                           Cause cause = Cause::kInvalidUsage) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), cause);
    for (const char* word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what() << " lacks " << word;
  }
}

}  // namespace tombolo::trainer::test
