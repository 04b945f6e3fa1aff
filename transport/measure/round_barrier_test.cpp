#include "transport/measure/round_barrier.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "base/randomized_test.h"

namespace tombolo::transport::measure {
namespace {

TEST(RoundBarrier, OfOneMemberNeverWaits) {
  RoundBarrier barrier(1);
  RoundBarrier::Member member(barrier);
  EXPECT_FALSE(member.arrive_and_wait(false));
  EXPECT_FALSE(member.all_finished());
  member.finish();
  EXPECT_TRUE(member.all_finished());
  EXPECT_TRUE(member.arrive_and_wait(true));
  EXPECT_FALSE(member.all_finished()) << "a new round";
}

TEST(RoundBarrier, GoesOnAsLongAsOneWantsTo) {
  constexpr int kMembers = 4, kRounds = 50;
  RoundBarrier barrier(kMembers);
  std::atomic<int> in_round[kRounds + 1] = {};
  std::vector<std::thread> threads;
  for (int m = 0; m < kMembers; ++m) {
    threads.emplace_back([&, m] {
      RoundBarrier::Member member(barrier);
      int round = 0;
      do {
        ++in_round[round++];
        member.finish();
        while (!member.all_finished()) std::this_thread::yield();
        EXPECT_EQ(in_round[round - 1], kMembers) << "finished in round " << round - 1 << " without one";
      } while (member.arrive_and_wait(m == round % kMembers && round < kRounds));
      EXPECT_EQ(round, kRounds);
    });
  }
  for (std::thread& one : threads) one.join();
}

/// As ranks do by an all-reduce.
class Ranks {
 public:
  explicit Ranks(std::size_t count) : count_(count) {}
  bool any(bool here) {
    std::unique_lock lock(mutex_);
    any_ |= here;
    const std::size_t turn = turn_;
    if (++arrived_ == count_) {
      last_ = any_;
      any_ = false;
      arrived_ = 0;
      ++turn_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return turn_ != turn; });
    return last_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t count_, arrived_ = 0, turn_ = 0;
  bool any_ = false, last_ = false;
};

TEST(RoundBarrier, OfSeveralProcessesKeepsTheirRoundsTogether) {
  constexpr std::size_t kProcesses = 3;
  const std::array<int, kProcesses> members{2, 0, 1};  // one only follows
  constexpr int kRounds = 20;
  Ranks ranks(kProcesses);
  std::atomic<int> in_round[kRounds + 2] = {};
  std::vector<std::thread> processes;
  for (std::size_t p = 0; p < kProcesses; ++p) {
    processes.emplace_back([&, p] {
      RoundBarrier barrier(static_cast<std::size_t>(members[p]) + 1);
      std::vector<std::jthread> threads;
      for (int m = 0; m < members[p]; ++m) {
        threads.emplace_back([&, p, m] {
          RoundBarrier::Member member(barrier);
          // One wants all rounds; another leaves in the middle, as one that failed does.
          const bool leaves = p == 0 && m == 1, wants = p == 2;
          int round = 0;
          for (bool another = true; member.arrive_and_wait(another); another = wants && round < kRounds) {
            ++in_round[round++];
            if (leaves && round == kRounds / 2) return;
            member.finish();
            while (!member.all_finished()) std::this_thread::yield();
            EXPECT_EQ(in_round[round - 1], round < kRounds / 2 ? 3 : in_round[round - 1].load());
          }
          EXPECT_EQ(round, kRounds);
        });
      }
      RoundBarrier::Member coordinator(barrier);
      while (coordinator.arrive_and_wait(ranks.any(coordinator.wait_until_others_arrive()))) {
        coordinator.wait_until_others_finish();
        ranks.any(false);
        coordinator.finish();
      }
    });
  }
  for (std::thread& one : processes) one.join();
  EXPECT_EQ(in_round[kRounds - 1], 2);
}

TEST(RoundBarrier, DoesNotWaitForMembersThatLeft) {
  std::mt19937 random(test_seed());
  for (int turn = 0; turn < 100; ++turn) {
    constexpr int kMembers = 3;
    RoundBarrier barrier(kMembers);
    std::vector<std::thread> threads;
    for (int m = 0; m < kMembers; ++m) {
      // One stays to the end; the others leave before they finish, before they meet, or after.
      const int leaves_after = m == 0 ? 30 : std::uniform_int_distribution(0, 20)(random);
      threads.emplace_back([&barrier, leaves_after] {
        RoundBarrier::Member member(barrier);
        for (int step = 0;; step += 3) {
          if (step >= leaves_after) return;
          member.finish();
          if (step + 1 >= leaves_after) return;
          while (!member.all_finished()) std::this_thread::yield();
          if (step + 2 >= leaves_after) return;
          EXPECT_TRUE(member.arrive_and_wait(true));
        }
      });
    }
    for (std::thread& one : threads) one.join();
  }
}

}  // namespace
}  // namespace tombolo::transport::measure
