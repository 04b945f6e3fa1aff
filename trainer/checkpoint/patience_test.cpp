#include "trainer/checkpoint/patience.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "collectives/testing/held_clock.h"
#include "collectives/testing/test_support.h"

namespace tombolo::trainer {
namespace {

using collectives::Communicator;

TEST(Patience, ARankMayWorkForLongerThanTheOthersDeadline) {
  std::atomic<int> done{0};
  collectives::test::HeldClock clock;
  collectives::test::GoesOnceAllHaveCome begin(clock, 3);
  const auto short_deadline = [&](collectives::Options& options) {
    options.deadline = std::chrono::seconds(3);
    options.router.clock = &clock;
  };
  collectives::test::expect_fine(collectives::test::run_ranks(
      "AAA",
      [&](Communicator& world) {
        begin.comes();
        work_with_patience(&world, [&] {
          // What is tested is the passing of time.
          if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(5));
          ++done;
        });
        EXPECT_EQ(done, 3) << "rank " << world.rank() << " did not wait for the others";
        world.barrier();
      },
      short_deadline));
}

TEST(Patience, WhatOneRanksWorkThrowsIsThrownThereWhenAllAreDone) {
  std::atomic<int> threw{0};
  collectives::test::expect_fine(collectives::test::run_ranks("AA", [&](Communicator& world) {
    try {
      work_with_patience(&world, [&] {
        if (world.rank() == 1) fail(Cause::kSystem, "on purpose");
      });
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "on purpose");
      ++threw;
    }
    world.barrier();  // the communicator is still good
  }));
  EXPECT_EQ(threw, 1);
  EXPECT_THROW(work_with_patience(nullptr, [] { fail(Cause::kSystem, "alone"); }), Error);
}

}  // namespace
}  // namespace tombolo::trainer
