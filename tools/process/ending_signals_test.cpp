#include "tools/process/ending_signals.h"

#include <gtest/gtest.h>
#include <poll.h>

namespace tombolo::tools {
namespace {

sigset_t mask_of_this_thread() {
  sigset_t mask{};
  ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return mask;
}

/// How this process answers a signal, until the end of a test.
class Answer {
 public:
  Answer(int number, sighandler_t answer) : number_(number) {
    struct sigaction action {};
    action.sa_handler = answer;
    ::sigaction(number, &action, &before_);
  }
  ~Answer() { ::sigaction(number_, &before_, nullptr); }
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

 private:
  int number_;
  struct sigaction before_ {};
};

// nohup(1), and a script that runs the program in the background.
TEST(EndingSignals, LeaveAnIgnoredSignalIgnored) {
  const Answer interrupt(SIGINT, SIG_DFL);
  const Answer hang_up(SIGHUP, SIG_IGN);
  EXPECT_TRUE(is_ignored(SIGHUP));
  EXPECT_FALSE(is_ignored(SIGINT));
  const EndingSignals signals;
  ::pthread_kill(::pthread_self(), SIGHUP);
  EXPECT_EQ(signals.next(), 0);
  ::pthread_kill(::pthread_self(), SIGINT);
  EXPECT_EQ(signals.next(), SIGINT);
}

TEST(EndingSignals, AreReadFromTheDescriptorInsteadOfEndingTheProcess) {
  // Whoever runs the tests in the background may have them ignored.
  const Answer interrupt(SIGINT, SIG_DFL);
  const Answer hang_up(SIGHUP, SIG_DFL);
  {
    const EndingSignals signals;
    EXPECT_EQ(signals.next(), 0);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
      ::pthread_kill(::pthread_self(), number);
      pollfd ready{signals.handle(), POLLIN, 0};
      EXPECT_EQ(::poll(&ready, 1, 0), 1) << number;
      EXPECT_EQ(signals.next(), number);
    }
    EXPECT_EQ(signals.next(), 0);
    const sigset_t inside = mask_of_this_thread();
    EXPECT_EQ(::sigismember(&inside, SIGTERM), 1);
    EXPECT_EQ(::sigismember(&signals.before(), SIGTERM), 0) << "children must not inherit the blocking";
  }
  const sigset_t after = mask_of_this_thread();
  EXPECT_EQ(::sigismember(&after, SIGTERM), 0);
}

TEST(IgnoredPipeSignal, RestoresTheHandlerBefore) {
  struct sigaction before {
  }, now{};
  ::sigaction(SIGPIPE, nullptr, &before);
  {
    const IgnoredPipeSignal ignored;
    ::sigaction(SIGPIPE, nullptr, &now);
    EXPECT_EQ(now.sa_handler, SIG_IGN);
  }
  ::sigaction(SIGPIPE, nullptr, &now);
  EXPECT_EQ(now.sa_handler, before.sa_handler);
}

}  // namespace
}  // namespace tombolo::tools
