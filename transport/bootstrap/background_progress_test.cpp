#include "transport/bootstrap/background_progress.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/sanitizer.h"
#include "transport/testing/short_memory.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::bootstrap {
namespace {

/// Counts its calls.
struct Counting final : Progressable {
  explicit Counting(Duration wants = BackgroundProgress::kIdle) : again(wants) {}
  Duration progress_in_background() noexcept override {
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++calls;
    return again;
  }
  Duration again;
  std::atomic<int> calls{0};
  std::atomic<bool> slow{false};
};

template <typename Done>
bool comes(const Done& done, const Deadline& deadline = test::soon()) {
  while (!done()) {
    if (deadline.passed()) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(BackgroundProgress, CallsEachAsOftenAsItAsksFor) {
  BackgroundProgress background([] { return false; });
  Counting often(std::chrono::microseconds(1)), seldom;
  background.add(&often);
  background.add(&seldom);
  EXPECT_TRUE(comes([&] { return often.calls > 20 && seldom.calls > 0; }));
  background.remove(&often);
  background.remove(&seldom);
}

TEST(BackgroundProgress, CallsNobodyAfterItsRemoval) {
  BackgroundProgress background([] { return false; });
  Counting kept(std::chrono::microseconds(1));
  background.add(&kept);
  for (int round = 0; round < 50; ++round) {
    auto going = std::make_unique<Counting>(std::chrono::microseconds(1));
    going->slow = round % 10 == 0;
    background.add(going.get());
    if (round % 2 == 0) {
      ASSERT_TRUE(comes([&] { return going->calls > 0; }));
    }
    background.remove(going.get());
    going.reset();  // a sanitizer sees a call that comes now
  }
  const int before = kept.calls;
  EXPECT_TRUE(comes([&] { return kept.calls > before; }));
  background.remove(&kept);
}

/// Stays in its call until it is let go.
struct Staying final : Progressable {
  Duration progress_in_background() noexcept override {
    entered = true;
    while (!let_go) std::this_thread::yield();
    return BackgroundProgress::kIdle;
  }
  std::atomic<bool> entered{false}, let_go{false};
};

// An owner waits for a call of its own object, which is bounded, and not for those of a thousand others.
TEST(BackgroundProgress, NobodyWaitsForTheCallsOfOthers) {
  BackgroundProgress background([] { return false; });
  Staying staying;
  background.add(&staying);
  ASSERT_TRUE(comes([&] { return staying.entered.load(); }));
  std::atomic<int> done{0};
  std::thread owner([&] {
    Counting other;
    background.add(&other);
    background.wake();
    background.remove(&other);
    done = 1;
  });
  EXPECT_TRUE(comes([&] { return done == 1; }, Deadline::after(std::chrono::seconds(20))));
  std::thread own([&] {
    background.remove(&staying);
    done = 2;
  });
  staying.let_go = true;
  EXPECT_TRUE(comes([&] { return done == 2; }));
  owner.join();
  own.join();
}

TEST(BackgroundProgress, TheOneThatIsBusyDoesNotHaveTheOthersCalled) {
  FakeClock clock;
  BackgroundProgress background([] { return false; }, clock, BackgroundProgress::Drive::kOwner);
  Counting busy(std::chrono::microseconds(100)), idle(BackgroundProgress::kIdle);
  background.add(&idle);
  background.add(&busy);
  for (int round = 1; round <= 200; ++round) {
    EXPECT_EQ(background.round(), clock.now() + busy.again);
    EXPECT_EQ(busy.calls, round);
    EXPECT_EQ(idle.calls, 1);
    clock.advance(busy.again);
  }
  clock.advance(BackgroundProgress::kIdle);
  background.round();
  EXPECT_EQ(idle.calls, 2);
  background.remove(&busy);
  background.remove(&idle);
}

TEST(BackgroundProgress, IsWokenAlsoByWhoHasNoConnection) {
  std::atomic<int> rounds{0};
  BackgroundProgress background([&] { return ++rounds < 3; });
  background.wake();
  EXPECT_TRUE(comes([&] { return rounds >= 3; }));
}

TEST(BackgroundProgress, GoesOnForItsRoundsThoughNobodyIsLeft) {
  std::atomic<int> rounds{0}, wanted{5};
  BackgroundProgress background([&] { return ++rounds < wanted; });
  Counting one;
  background.add(&one);
  background.remove(&one);
  EXPECT_TRUE(comes([&] { return rounds >= wanted; }));
}

TEST(BackgroundProgress, SleepsWithNothingToDoUntilItIsWoken) {
  std::atomic<int> rounds{0};
  BackgroundProgress background([&] {
    ++rounds;
    return false;
  });
  Counting one;
  background.add(&one);
  background.remove(&one);
  for (int i = 0; i < 10; ++i) {
    const int before = rounds;
    background.wake();
    ASSERT_TRUE(comes([&] { return rounds > before; }));
  }
}

// A round that somebody waits for does not wait for connections that have nothing to do.
TEST(BackgroundProgress, IsWokenAlsoWhileOthersSleep) {
  // By this clock what has been called once is not due again before this test is over.
  FakeClock clock;
  clock.advance(Clock::steady().now() - TimePoint() + std::chrono::hours(1));
  std::atomic<int> rounds{0};
  BackgroundProgress background(
      [&] {
        ++rounds;
        return false;
      },
      clock);
  Counting idle;
  background.add(&idle);
  ASSERT_TRUE(comes([&] { return idle.calls > 0; }));
  for (int i = 0; i < 60; ++i) {
    const int before = rounds;
    background.wake();
    ASSERT_TRUE(comes([&] { return rounds > before; })) << i << " rounds";
  }
  EXPECT_EQ(idle.calls, 1) << "who asked for no more is not called each time";
  background.remove(&idle);
}

/// The signals that each thread of that name does not take, as the kernel's bits.
std::vector<std::uint64_t> blocked_by(const std::string& name) {
  std::vector<std::uint64_t> masks;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string is;
    std::getline(std::ifstream(task.path() / "comm"), is);
    if (is != name) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("SigBlk:")) masks.push_back(std::stoull(line.substr(7), nullptr, 16));
  }
  return masks;
}

TEST(BackgroundProgress, LeavesTheProgramsSignalsToItsOwnThreads) {
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  BackgroundProgress background([] { return false; });
  Counting one;
  background.add(&one);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < SIGRTMIN; ++signal)
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << signal;
  const auto masks = blocked_by("tombolo-bg");
  EXPECT_FALSE(masks.empty());
  for (const std::uint64_t mask : masks) {
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM})
      EXPECT_NE(mask >> (signal - 1) & 1, 0u) << signal;
  }
  background.remove(&one);
}

TEST(BackgroundProgress, DoesWithoutAThreadForWhichThereIsNoMemoryAndKeepsTheCallersSignals) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's operator new always has memory";
  std::atomic<int> rounds{0};
  BackgroundProgress background([&] {
    ++rounds;
    return false;
  });
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  {
    const test::ShortMemory none;
    background.wake();
  }
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < SIGRTMIN; ++signal)
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << signal;
  EXPECT_EQ(rounds, 0);
  background.wake();
  EXPECT_TRUE(comes([&] { return rounds > 0; })) << "the next call has memory";
}

TEST(BackgroundProgress, OnceEndedHasNoThreadAndGetsNone) {
  BackgroundProgress background([] { return false; });
  Counting one, later;
  background.add(&one);
  ASSERT_TRUE(comes([&] { return one.calls > 0; }));
  background.end();
  // A thread that was joined may still be listed for a moment.
  EXPECT_TRUE(comes([] { return blocked_by("tombolo-bg").empty(); }));
  background.add(&later);
  background.wake();
  EXPECT_TRUE(blocked_by("tombolo-bg").empty());
  background.remove(&one);
  background.remove(&later);
  EXPECT_EQ(later.calls, 0);
}

}  // namespace
}  // namespace tombolo::transport::bootstrap
