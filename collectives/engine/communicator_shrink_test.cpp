// The ranks that are left go on without the others. Ranks are threads.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "base/clock.h"
#include "collectives/engine/communicator.h"
#include "collectives/testing/held_clock.h"
#include "collectives/testing/hooked_store.h"
#include "collectives/testing/shrinking.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using namespace test;

TEST(Shrink, GoesOnWithThoseThatComeAfterAFailure) {
  for (const int victim : {1, 3}) {
    for (const bool in_memory : {false, true}) {
      std::atomic<int> went_on{0};
      std::array<HeldClock, 4> clocks;
      const auto outcomes = run_ranks(
          "AABB",
          [&](Communicator& communicator) {
            HeldClock& own = clocks[static_cast<std::size_t>(communicator.rank())];
            EXPECT_EQ(sum_of_ones(communicator), 4);
            if (communicator.rank() == victim) throw Error(Cause::kInternal, "gives up");
            EXPECT_THROW(
                {
                  for (;;) sum_of_ones(communicator);
                },
                Error);
            const auto left = shrink_in_no_time(communicator, own);
            EXPECT_EQ(left->size(), 3);
            EXPECT_EQ(left->rank(), communicator.rank() - (communicator.rank() > victim ? 1 : 0));
            EXPECT_EQ(sum_of_ones(*left), 3);
            EXPECT_THROW(sum_of_ones(communicator), Error) << "the whole stays as it was";
            // And once more: those that are left lose another one.
            if (left->rank() == 1) throw Error(Cause::kInternal, "gives up, too");
            try {
              for (;;) sum_of_ones(*left);
            } catch (const Error& error) {
              const std::string text = error.what(),
                                was = victim == 1 ? "rank 1 (rank 2 before the shrink)" : "rank 1 on host";
              EXPECT_NE(text.find(was), std::string::npos) << text;
            }
            const auto two = shrink_in_no_time(*left, own);
            EXPECT_EQ(sum_of_ones(*two), 2);
            two->finalize();
            ++went_on;
          },
          [&](Options& options) {
            if (in_memory) one_host(options);
            options.router.clock = &clocks[static_cast<std::size_t>(options.identity.rank)];
          });
      EXPECT_EQ(went_on, 2);
      EXPECT_TRUE(outcomes[static_cast<std::size_t>(victim)].threw);
    }
  }
}

TEST(Shrink, WaitsForARankThatLives) {
  Arrivals arrivals(2, 2);
  FakeClock standing;  // so that no patience ends, however slow the machine
  const auto outcomes = run_ranks(
      "AAB",
      [&](Communicator& communicator) {
        const auto deadline = Deadline::after(std::chrono::seconds(60));
        while (communicator.rank() == 2 && arrivals.looks < 50 && !deadline.passed())
          std::this_thread::yield();
        EXPECT_FALSE(deadline.passed()) << "the others have gone on without it";
        const auto left = communicator.shrink({});
        EXPECT_EQ(left->size(), 3);
        EXPECT_EQ(sum_of_ones(*left), 3);
      },
      [&](Options& options) {
        arrivals.into(options);
        options.router.clock = &standing;
      });
  expect_fine(outcomes);
}

TEST(Shrink, WaitsForARankThatIsNotPresentYet) {
  Arrivals arrivals(0, 1);
  std::atomic<bool> went_on{false};
  const auto done = Deadline::after(std::chrono::seconds(60));
  arrivals.hooks.before_put = [&, counts = arrivals.hooks.before_put](std::string_view key) {
    counts(key);
    if (!key.ends_with("/present/0") || key.find("/shrunk/") != key.npos) return;
    while (arrivals.looks < 50 && !went_on && !done.passed()) std::this_thread::yield();
  };
  FakeClock standing;  // so that no patience ends, however slow the machine
  const auto outcomes = run_ranks(
      "AAB",
      [&](Communicator& communicator) {
        if (communicator.rank() == 2) return;
        const auto left = communicator.shrink({});
        went_on = true;
        EXPECT_EQ(sum_of_ones(*left), 2);
      },
      [&](Options& options) {
        arrivals.into(options);
        options.router.clock = &standing;
      });
  expect_fine(outcomes);
}

TEST(Shrink, DoesNotWaitForARankThatIsGone) {
  Arrivals arrivals(2, 2);
  std::array<HeldClock, 3> clocks;
  const auto outcomes = run_ranks(
      "AAB",
      [&](Communicator& communicator) {
        if (communicator.rank() == 2) throw Error(Cause::kInternal, "gives up");
        EXPECT_THROW(
            {
              for (;;) sum_of_ones(communicator);
            },
            Error);
        const auto left =
            shrink_in_no_time(communicator, clocks[static_cast<std::size_t>(communicator.rank())]);
        EXPECT_EQ(sum_of_ones(*left), 2);
      },
      [&](Options& options) {
        arrivals.into(options);
        options.router.clock = &clocks[static_cast<std::size_t>(options.identity.rank)];
      });
  EXPECT_LT(arrivals.looks, 2000) << "3000 are as long as the clock is held";
}

TEST(Shrink, ExcludesWhomAllExclude) {
  const auto outcomes = run_ranks("AABB", [](Communicator& communicator) {
    if (communicator.rank() == 2) {
      EXPECT_THROW(communicator.shrink({2}), Error) << "itself";
      EXPECT_THROW(communicator.shrink({4}), Error) << "no rank";
    } else {
      const auto left = communicator.shrink({2});
      EXPECT_EQ(left->size(), 3);
      EXPECT_EQ(sum_of_ones(*left), 3);
    }
    EXPECT_EQ(sum_of_ones(communicator), 4) << "the whole is as usable as before";
  });
  expect_fine(outcomes);
}

// Neither waits for the other until its deadline.
TEST(Shrink, RefusesListsThatDiffer) {
  std::atomic<bool> listed{false};
  std::atomic<int> refused{0};
  StoreHooks hooks;
  hooks.before_get = [&](std::string_view key) { listed = listed || key.ends_with("/shrunk/1/rank/0"); };
  const auto outcomes = run_ranks(
      "AAB",
      [&](Communicator& communicator) {
        if (communicator.rank() == 2) return;
        const auto late = Deadline::after(std::chrono::seconds(60));
        while (communicator.rank() == 1 && !listed && !late.passed()) std::this_thread::yield();
        try {
          communicator.shrink(communicator.rank() == 0 ? std::vector{2} : std::vector{0, 2});
        } catch (const Error& error) {
          if (error.cause() == Cause::kInvalidUsage) ++refused;
          EXPECT_NE(std::string(error.what()).find("rank 1 goes on with ranks 1, and another one with 0, 1"),
                    std::string::npos)
              << error.what();
        }
      },
      [&](Options& options) {
        options.store =
            std::make_shared<HookedStore>(store_at("127.0.0.1", options.identity.port, kTestSecret), hooks);
      });
  expect_fine(outcomes);
  EXPECT_EQ(refused, 2);
}

// The first one goes on alone: the other one comes later, and would not be waited for.
TEST(Shrink, RefusesAListBesideNone) {
  for (const int with_list : {0, 1}) {  // the first one, or the other
    std::atomic<bool> went_on{false};
    std::atomic<int> refused{0};
    Arrivals arrivals(1, 1);
    FakeClock clock;
    arrivals.let_time_pass(clock);
    const auto outcomes = run_ranks(
        "AB",
        [&](Communicator& communicator) {
          const int rank = communicator.rank();
          const auto excluded = rank == with_list ? std::vector{1 - rank} : std::vector<int>();
          if (rank == 0) {
            EXPECT_EQ(communicator.shrink(excluded)->size(), 1);
            went_on = true;
            return;
          }
          const auto late = Deadline::after(std::chrono::seconds(60));
          while (!went_on && !late.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          try {
            communicator.shrink(excluded);
          } catch (const Error& error) {
            refused += error.cause() == Cause::kInvalidUsage ? 1 : 0;
            EXPECT_NE(std::string(error.what()).find("without a list"), std::string::npos) << error.what();
          }
        },
        [&](Options& options) {
          arrivals.into(options);
          options.router.clock = &clock;
        });
    expect_fine(outcomes);
    EXPECT_EQ(refused, 1) << with_list;
  }
}

TEST(Shrink, ARankThatComesLateIsToldSo) {
  std::atomic<bool> decided{false};
  std::atomic<int> late{0};
  Arrivals arrivals(2, 2);
  FakeClock clock;
  arrivals.let_time_pass(clock);
  const auto outcomes = run_ranks(
      "AAB",
      [&](Communicator& communicator) {
        if (communicator.rank() == 2) {
          while (!decided) std::this_thread::yield();
          try {
            const auto left = communicator.shrink({});
          } catch (const Error& error) {
            late += error.cause() == Cause::kRemote ? 1 : 0;
            EXPECT_NE(std::string(error.what()).find("without rank 2"), std::string::npos) << error.what();
          }
          return;
        }
        const auto left = communicator.shrink({});
        decided = true;
        EXPECT_EQ(left->size(), 2);
        EXPECT_EQ(sum_of_ones(*left), 2);
      },
      [&](Options& options) {
        arrivals.into(options);
        options.router.clock = &clock;
      });
  expect_fine(outcomes);
  EXPECT_EQ(late, 1);
}

// It has come, and dies before it is part of what the others make.
TEST(Shrink, FailsSoonWhereARankDiesInItAndIsMadeAgain) {
  StoreHooks hooks;
  std::array<HeldClock, 4> clocks;
  std::atomic<int> again{0};
  // Until they have agreed who goes on, no time passes for any of them.
  std::atomic<std::thread::id> dead;
  hooks.before_put = [&](std::string_view key) {
    if (dead.load() == std::this_thread::get_id()) throw Error(Cause::kInternal, "is dead");
    if (key.find("/shrunk/") == key.npos || key.find("/rank/") == key.npos) return;
    if (key.ends_with("/shrunk/1/rank/1")) {
      dead = std::this_thread::get_id();
      throw Error(Cause::kInternal, "dies");
    }
    const bool first = key.find("/shrunk/1/") != key.npos;
    // The ranks of what they make are 0, 1 and 2, or 0 and 1.
    const int of_it = key.back() - '0';
    clocks[static_cast<std::size_t>(first || of_it == 0 ? of_it : 2)].let_go();
  };
  const auto outcomes = run_ranks(
      "AABB",
      [&](Communicator& communicator) {
        HeldClock& own = clocks[static_cast<std::size_t>(communicator.rank())];
        EXPECT_EQ(sum_of_ones(communicator), 4);
        if (communicator.rank() == 3) throw Error(Cause::kInternal, "gives up");
        fail_once(communicator);
        own.hold();
        if (communicator.rank() == 1) {
          communicator.shrink({});
          return;
        }
        try {
          communicator.shrink({});
          ADD_FAILURE() << "without rank 1";
        } catch (const Error& error) {
          EXPECT_EQ(error.cause(), Cause::kRemote) << error.what();
          EXPECT_NE(std::string(error.what()).find("rank 1 of 3 died before arriving"), std::string::npos)
              << error.what();
        }
        own.hold();
        const auto left = communicator.shrink({});
        EXPECT_EQ(left->size(), 2);
        EXPECT_EQ(sum_of_ones(*left), 2);
        ++again;
      },
      [&](Options& options) {
        options.router.clock = &clocks[static_cast<std::size_t>(options.identity.rank)];
        options.store =
            std::make_shared<HookedStore>(store_at("127.0.0.1", options.identity.port, kTestSecret), hooks);
      });
  EXPECT_EQ(again, 2);
  EXPECT_TRUE(outcomes[1].threw);
}

// The others wait for its word.
TEST(Shrink, IsDecidedByAnotherRankWhereTheFirstOneDies) {
  StoreHooks hooks;
  std::atomic<int> went_on{0}, died{0};
  std::atomic<std::thread::id> first, dead;
  hooks.before_put = [&](std::string_view key) {
    if (dead.load() == std::this_thread::get_id()) throw Error(Cause::kInternal, "is dead");
    if (!key.ends_with("/decider/0")) return;
    std::thread::id none;
    first.compare_exchange_strong(none, std::this_thread::get_id());
  };
  hooks.before_try_get = [&](std::string_view key) {
    if (key.find("/shrunk/1/here/") == key.npos || first.load() != std::this_thread::get_id()) return;
    ++died;
    dead = std::this_thread::get_id();
    throw Error(Cause::kInternal, "dies");
  };
  const auto outcomes = run_ranks(
      "AABB",
      [&](Communicator& communicator) {
        EXPECT_EQ(sum_of_ones(communicator), 4);
        if (communicator.rank() == 3) throw Error(Cause::kInternal, "gives up");
        fail_once(communicator);
        const auto left = communicator.shrink({});
        EXPECT_EQ(left->size(), 2);
        EXPECT_EQ(sum_of_ones(*left), 2);
        ++went_on;
      },
      [&](Options& options) {
        options.store =
            std::make_shared<HookedStore>(store_at("127.0.0.1", options.identity.port, kTestSecret), hooks);
      });
  EXPECT_EQ(went_on, 2);
  EXPECT_EQ(died, 1);
}

/// Where rank 2 of four runs out of something while rank 3 is gone.
struct FailingPart {
  const char* name;
  const char* key;     ///< that it uses then
  bool first = false;  ///< it comes first, and is to say who goes on
};

class PartThatFails : public testing::TestWithParam<FailingPart> {};

INSTANTIATE_TEST_SUITE_P(Shrink, PartThatFails,
                         testing::Values(FailingPart{"AsItPublishesItsRecord", "/shrunk/1/rank/2"},
                                         FailingPart{"OnceItIsMade", "/shrunk/1/made"},
                                         FailingPart{"AsItLooksWhoComes", "/shrunk/1/here/0", true},
                                         FailingPart{"AsItWaitsForTheDecision", "/shrunk/1/ranks"}),
                         [](const auto& one) { return one.param.name; });

// Nobody waits for it until the deadline.
TEST_P(PartThatFails, IsToldToAllWithItsReason) {
  std::array<StoreHooks, 4> hooks;
  std::array<HeldClock, 4> clocks;
  std::atomic<bool> has_failed{false}, threw{false}, decides{false};
  std::atomic<int> told{0}, again{0};
  const auto until = [](const std::atomic<bool>& done) {
    const auto late = Deadline::after(std::chrono::seconds(60));
    while (!done && !late.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const auto fails = [&](std::string_view key) {
    if (!key.ends_with(GetParam().key) || has_failed.exchange(true)) return;
    decides = true;
    throw Error(Cause::kSystem, "no descriptors are left");
  };
  hooks[2].before_put = [&](std::string_view key) {
    if (key.ends_with("/shrunk/1/decider/0") && !GetParam().first) until(decides);
    if (!key.ends_with("/ranks")) fails(key);
  };
  hooks[2].before_get = hooks[2].before_try_get = fails;
  for (const int other : {0, 1}) {
    hooks[static_cast<std::size_t>(other)].before_put = [&](std::string_view key) {
      if (key.ends_with("/shrunk/1/decider/0") && GetParam().first) until(decides);
      const bool waits_for_it = std::string_view(GetParam().key) == "/shrunk/1/ranks";
      if (key.ends_with("/shrunk/1/ranks") && waits_for_it) until(threw);
    };
    hooks[static_cast<std::size_t>(other)].before_try_get = [&](std::string_view key) {
      if (key.find("/shrunk/1/here/") != key.npos) decides = true;
    };
  }
  const auto outcomes = run_ranks(
      "AABB",
      [&](Communicator& communicator) {
        HeldClock& own = clocks[static_cast<std::size_t>(communicator.rank())];
        EXPECT_EQ(sum_of_ones(communicator), 4);
        if (communicator.rank() == 3) throw Error(Cause::kInternal, "gives up");
        fail_once(communicator);
        own.hold();
        try {
          communicator.shrink({});
          ADD_FAILURE() << "without rank 2";
        } catch (const Error& error) {
          const std::string text = error.what();
          EXPECT_NE(error.cause(), Cause::kTimeout) << text;
          EXPECT_NE(text.find("no descriptors are left"), std::string::npos) << text;
          if (communicator.rank() != 2) {
            EXPECT_NE(text.find("rank 2"), std::string::npos) << text;
            ++told;
          }
        }
        threw = threw || communicator.rank() == 2;
        own.let_go();
        EXPECT_EQ(sum_of_ones(*shrink_in_no_time(communicator, own)), 3);
        ++again;
      },
      [&](Options& options) {
        const auto rank = static_cast<std::size_t>(options.identity.rank);
        options.router.clock = &clocks[rank];
        options.store = std::make_shared<HookedStore>(
            store_at("127.0.0.1", options.identity.port, kTestSecret), hooks[rank]);
      });
  EXPECT_EQ(told, 2);
  EXPECT_EQ(again, 3);
}

TEST(Shrink, OfARankAloneIsItself) {
  const auto outcomes = run_ranks("A", [](Communicator& communicator) {
    const auto left = communicator.shrink({});
    EXPECT_EQ(left->size(), 1);
    EXPECT_EQ(sum_of_ones(*left), 1);
  });
  expect_fine(outcomes);
}

}  // namespace
}  // namespace tombolo::collectives
