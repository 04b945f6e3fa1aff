#include "probe/company.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace tombolo::probe {
namespace {

TEST(Company, OfOneNeverWaits) {
  Company company(1);
  Company::Member member(company);
  EXPECT_FALSE(member.meet(false));
  EXPECT_FALSE(member.all_finished());
  member.finish();
  EXPECT_TRUE(member.all_finished());
  EXPECT_TRUE(member.meet(true));
  EXPECT_FALSE(member.all_finished()) << "a new round";
}

TEST(Company, GoesOnAsLongAsOneWantsTo) {
  constexpr int kMembers = 4, kRounds = 50;
  Company company(kMembers);
  std::atomic<int> in_round[kRounds + 1] = {};
  std::vector<std::thread> threads;
  for (int m = 0; m < kMembers; ++m) {
    threads.emplace_back([&, m] {
      Company::Member member(company);
      int round = 0;
      do {
        ++in_round[round++];
        member.finish();
        while (!member.all_finished()) std::this_thread::yield();
        EXPECT_EQ(in_round[round - 1], kMembers) << "finished in round " << round - 1 << " without one";
      } while (member.meet(m == round % kMembers && round < kRounds));
      EXPECT_EQ(round, kRounds);
    });
  }
  for (std::thread& one : threads) one.join();
}

TEST(Company, DoesNotWaitForThoseThatLeft) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int turn = 0; turn < 100; ++turn) {
    constexpr int kMembers = 3;
    Company company(kMembers);
    std::vector<std::thread> threads;
    for (int m = 0; m < kMembers; ++m) {
      // One stays to the end; the others leave before they finish, before they meet, or after.
      const int leaves_after = m == 0 ? 30 : std::uniform_int_distribution(0, 20)(random);
      threads.emplace_back([&company, leaves_after] {
        Company::Member member(company);
        for (int step = 0;; step += 3) {
          if (step >= leaves_after) return;
          member.finish();
          if (step + 1 >= leaves_after) return;
          while (!member.all_finished()) std::this_thread::yield();
          if (step + 2 >= leaves_after) return;
          EXPECT_TRUE(member.meet(true));
        }
      });
    }
    for (std::thread& one : threads) one.join();
  }
}

}  // namespace
}  // namespace tombolo::probe
