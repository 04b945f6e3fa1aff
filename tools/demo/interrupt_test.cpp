#include "tools/demo/interrupt.h"

#include <gtest/gtest.h>

namespace tombolo::tools::demo {
namespace {

TEST(InterruptWatch, TurnsASignalIntoAnExceptionAtTheNextCheck) {
  InterruptWatch watch;
  EXPECT_NO_THROW(watch.check());
  std::raise(SIGTERM);
  try {
    watch.check();
    FAIL() << "the signal was not noticed";
  } catch (const Interrupted& interrupted) {
    EXPECT_EQ(interrupted.exit_code(), 143);
  }
}

TEST(InterruptWatch, GivesTheOldHandlersBack) {
  struct sigaction before {
  }, after{};
  sigaction(SIGINT, nullptr, &before);
  { InterruptWatch watch; }
  sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

}  // namespace
}  // namespace tombolo::tools::demo
