#include "tools/process/stop_request.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace tombolo::tools {
namespace {

constexpr Duration kAnHour = std::chrono::hours(1);

/// Signals change the process: each case runs in one of its own, which ends with 0 where `holds`.
template <typename Body>
[[noreturn]] void end_with(const Body& holds) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) std::signal(number, SIG_DFL);
  std::_Exit(holds() ? 0 : 1);
}

class StopRequests : public testing::Test {
 protected:
  StopRequests() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(StopRequests, EachSignalIsOneAndRepetitionsChangeNothing) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1})
    EXPECT_EXIT(end_with([&] {
                  catch_stop_requests(kAnHour);
                  if (stop_requested()) return false;
                  for (int time = 0; time < 3; ++time) std::raise(number);
                  std::raise(SIGTERM);
                  return stop_requested();
                }),
                testing::ExitedWithCode(0), "")
        << number;
}

TEST_F(StopRequests, ALaterSignalEndsTheProcess) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    EXPECT_EXIT(end_with([&] {
                  catch_stop_requests(Duration::zero());
                  std::raise(SIGTERM);
                  std::raise(number);
                  return true;
                }),
                testing::KilledBySignal(number), "")
        << number;
}

// A scheduler's warning may come any number of times, and the time that it leaves is not over with SIGTERM.
TEST_F(StopRequests, Sigusr1EndsNothingAndIsNoFirstSignal) {
  EXPECT_EXIT(end_with([] {
                catch_stop_requests(Duration::zero());
                for (int time = 0; time < 3; ++time) std::raise(SIGUSR1);
                std::raise(SIGTERM);
                std::raise(SIGUSR1);
                return stop_requested();
              }),
              testing::ExitedWithCode(0), "");
}

// nohup(1), and a script that runs the program in the background.
TEST_F(StopRequests, WhatIsIgnoredStaysIgnored) {
  EXPECT_EXIT(end_with([] {
                for (const int number : {SIGINT, SIGHUP, SIGUSR1}) std::signal(number, SIG_IGN);
                catch_stop_requests(Duration::zero());
                for (const int number : {SIGINT, SIGHUP, SIGUSR1}) std::raise(number);
                return !stop_requested();
              }),
              testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tombolo::tools
