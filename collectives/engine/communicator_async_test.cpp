// Collectives that are only started: their results, their order, their callbacks, and what becomes of them
// when a rank fails. Ranks are threads.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/randomized_test.h"
#include "collectives/engine/communicator.h"
#include "collectives/testing/held_clock.h"
#include "collectives/testing/planned_calls.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using namespace test;

CollectiveCall all_reduce_of(std::vector<std::int64_t>& values) {
  return {Collective::kAllReduce, values.data(),    values.data(),
          values.size(),          DataType::kInt64, ReduceOp::kSum};
}

/// The ranks of `clusters` on hosts of their own, or all on one.
enum class Place { kManyHosts, kOneHost };

std::vector<Outcome> run_with(Place place, Progress progress, const Body& body,
                              std::string_view clusters = "AAB", Duration deadline = std::chrono::seconds(60),
                              const Clock& clock = Clock::steady()) {
  return run_ranks(clusters, body, [&](Options& options) {
    options.progress = progress;
    options.deadline = deadline;
    options.router.clock = &clock;
    if (place == Place::kOneHost) {
      options.router.host.name = "host";
      options.router.host.cluster = "A";
    }
  });
}

class Started : public testing::TestWithParam<std::tuple<Place, Progress>> {
 protected:
  std::vector<Outcome> run(const Body& body, Duration deadline = std::chrono::seconds(60),
                           const Clock& clock = Clock::steady()) const {
    return run_with(std::get<0>(GetParam()), std::get<1>(GetParam()), body, "AAB", deadline, clock);
  }
};

INSTANTIATE_TEST_SUITE_P(Everywhere, Started,
                         testing::Combine(testing::Values(Place::kManyHosts, Place::kOneHost),
                                          testing::Values(Progress::kCaller, Progress::kThread)),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param) == Place::kManyHosts ? "Hosts"
                                                                                          : "OneHost") +
                                  (std::get<1>(one.param) == Progress::kCaller ? "Caller" : "Thread");
                         });

/// What can not be encoded, or with such a residual.
void call_refuses(Communicator& communicator) {
  std::vector<float> values(10, 1), residual(10, 0);
  CollectiveCall call{Collective::kAllReduce, values.data(), values.data(), 10,
                      DataType::kFloat32,     ReduceOp::kMax};
  call.compression = Compression::kInt8;
  EXPECT_THROW(communicator.run(call), Error);
  call.op = ReduceOp::kSum;
  call.residual = values.data() + 5;
  call.count = 5;
  communicator.check(call);
  call.count = 6;
  EXPECT_THROW(communicator.check(call), Error);
  call.count = 10;
  call.residual = residual.data();
  communicator.run(call);
}

std::vector<Planned> planned(std::mt19937 random, int ranks) {
  std::vector<Planned> all;
  for (int i = 0; i < 150; ++i) {
    const std::size_t largest = random() % 8 == 0 ? 200'000 : 2'000;
    all.push_back({kAllCollectives[random() % std::size(kAllCollectives)], random() % largest,
                   static_cast<int>(random() % static_cast<unsigned>(ranks)), random() % 4 == 0,
                   random() % 2 == 0});
  }
  return all;
}

TEST_P(Started, RandomMixesOfAllCollectivesAreRight) {
  const auto seed = test_seed();
  const auto outcomes = run([&](Communicator& whole) {
    // The same calls on every rank; when each is waited for is every rank's own affair. With a thread, some
    // are on another communicator of the same ranks. (Without one, a rank that waits on one communicator
    // makes no progress on the other.)
    const bool by_thread = std::get<1>(GetParam()) == Progress::kThread;
    const auto second = whole.split(0, -whole.rank());
    std::mt19937 own(seed + static_cast<unsigned>(whole.rank()));
    const auto plan = planned(std::mt19937(seed), whole.size());
    struct Pending {
      Communicator* communicator;
      Work work;
      std::size_t checked;
    };
    std::vector<PlannedCall> checked;
    checked.reserve(plan.size());
    std::vector<Pending> pending;
    const auto redeem = [&](std::size_t which) {
      const Pending one = pending[which];
      pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(which));
      if (own() % 2 == 0) {
        one.communicator->wait(one.work);
      } else {
        while (!one.communicator->test(one.work)) {
          whole.progress();
          second->progress();
          std::this_thread::yield();
        }
      }
      checked[one.checked].check();
    };
    for (std::size_t i = 0; i < plan.size(); ++i) {
      Communicator& on = by_thread && i % 3 == 0 ? *second : whole;
      checked.emplace_back(plan[i], static_cast<int>(i), on.rank(), on.size());
      if (plan[i].waits) {
        on.run(checked.back().call());
        checked.back().check();
      } else {
        pending.push_back({&on, on.start(checked.back().call()), i});
      }
      if (!pending.empty() && own() % 3 == 0) redeem(own() % pending.size());
    }
    while (!pending.empty()) redeem(own() % pending.size());
    second->finalize();
    whole.finalize();
  });
  expect_fine(outcomes);
}

TEST_P(Started, SeveralAreUnderWayAtOnceAndEndInAnyOrder) {
  // Rank 0 waits for the last first, rank 1 for the first, rank 2 for the middle.
  const auto outcomes = run([](Communicator& communicator) {
    constexpr std::size_t kWorks = 9;
    std::vector<std::vector<std::int64_t>> values(kWorks, std::vector<std::int64_t>(50'000));
    std::vector<Work> works;
    for (std::size_t i = 0; i < kWorks; ++i) {
      std::iota(values[i].begin(), values[i].end(), static_cast<std::int64_t>(i));
      works.push_back(communicator.start(all_reduce_of(values[i])));
    }
    constexpr std::size_t kOrders[3][kWorks] = {
        {8, 7, 6, 5, 4, 3, 2, 1, 0}, {0, 1, 2, 3, 4, 5, 6, 7, 8}, {4, 8, 0, 7, 1, 6, 2, 5, 3}};
    for (const std::size_t which : kOrders[communicator.rank()]) communicator.wait(works[which]);
    for (std::size_t i = 0; i < kWorks; ++i) {
      EXPECT_EQ(values[i].front(), static_cast<std::int64_t>(3 * i));
      EXPECT_EQ(values[i].back(), static_cast<std::int64_t>(3 * (i + values[i].size() - 1)));
    }
  });
  expect_fine(outcomes);
}

TEST_P(Started, ACallbackIsMadeOnceAndMayNotCall) {
  const auto outcomes = run([](Communicator& communicator) {
    struct Seen {
      std::atomic<int> calls{0}, failures{0}, refused{0};
    } seen;
    std::vector<std::int64_t> values(100'000, 1);
    const Work work = communicator.start(all_reduce_of(values));
    communicator.when_done(work, [&](const Error* error) {
      ++seen.calls;
      if (error != nullptr) ++seen.failures;
      try {
        communicator.barrier();
      } catch (const Error& refusal) {
        seen.refused += refusal.cause() == Cause::kInvalidUsage ? 1 : 0;
      }
    });
    EXPECT_THROW(communicator.when_done(work, [](const Error*) {}), Error) << "a second one";
    communicator.wait(work);
    EXPECT_EQ(seen.calls, 1);
    EXPECT_EQ(seen.failures, 0);
    EXPECT_EQ(seen.refused, 1);
    EXPECT_EQ(values.back(), 3);
    // Of what is done already it is made at once.
    const Work second = communicator.start({});
    while (!communicator.test(second)) std::this_thread::yield();
    EXPECT_THROW(communicator.when_done(second, [](const Error*) {}), Error) << "redeemed";
  });
  expect_fine(outcomes);
}

TEST_P(Started, AWorkIsRedeemedOnce) {
  const auto outcomes = run([](Communicator& communicator) {
    std::vector<std::int64_t> values(10, 1);
    const Work work = communicator.start(all_reduce_of(values));
    EXPECT_THROW(communicator.finalize(), Error) << "with a work that was not waited for";
    communicator.wait(work);
    EXPECT_THROW(communicator.wait(work), Error);
    EXPECT_THROW(communicator.test(work), Error);
    communicator.finalize();
  });
  expect_fine(outcomes);
}

TEST_P(Started, ARankThatFailsFailsAllWorksAndTheirCallbacks) {
  std::atomic<int> failures{0}, begun{0};
  const auto outcomes = run([&](Communicator& communicator) {
    std::vector<std::vector<std::int64_t>> values(6, std::vector<std::int64_t>(300'000, 1));
    std::vector<Work> works;
    if (communicator.rank() == 1) {
      // Who knows of the failure already starts nothing.
      for (const auto deadline = Deadline::after(std::chrono::seconds(60)); begun < 2 && !deadline.passed();)
        std::this_thread::yield();
      throw Error(Cause::kInternal, "rank 1 gives up");
    }
    for (auto& one : values) {
      works.push_back(communicator.start(all_reduce_of(one)));
      communicator.when_done(works.back(), [&](const Error* error) { failures += error != nullptr ? 1 : 0; });
      if (works.size() == 1) ++begun;
    }
    for (const Work work : works) communicator.wait(work);
  });
  for (const int rank : {0, 2}) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(outcome.threw);
    EXPECT_NE(outcome.text.find("rank 1"), std::string::npos) << outcome.text;
  }
  EXPECT_GE(failures, 2) << "of up to 6 on each of two ranks, those that were started";
}

TEST_P(Started, AnAbortEndsThem) {
  const auto outcomes = run([](Communicator& communicator) {
    std::vector<std::int64_t> values(100'000, 1);
    if (communicator.rank() == 2) {  // never comes
      communicator.abort("enough");
      communicator.barrier();
    }
    communicator.wait(communicator.start(all_reduce_of(values)));
  });
  for (const Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.threw);
    EXPECT_EQ(outcome.cause, Cause::kAborted) << outcome.text;
  }
}

TEST_P(Started, ADeadlineNamesWhoIsWaitedFor) {
  HeldClock clock;
  GoesOnceAllHaveCome begin(clock, 3);
  const auto outcomes = run(
      [&](Communicator& communicator) {
        std::vector<std::int64_t> values(1000, 1);
        communicator.barrier();
        begin.comes();
        if (communicator.rank() == 2) {  // comes late: until the others have given up
          while (!communicator.failure_cause()) {
            try {
              communicator.progress();
            } catch (const Error&) {
              break;
            }
            std::this_thread::yield();
          }
          return;
        }
        communicator.wait(communicator.start(all_reduce_of(values)));
      },
      std::chrono::seconds(3), clock);
  for (const int rank : {0, 1}) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(outcome.threw);
    EXPECT_EQ(outcome.cause, Cause::kTimeout) << outcome.text;
    EXPECT_NE(outcome.text.find("all_reduce #2 (7.81 KiB int64 sum)"), std::string::npos) << outcome.text;
    EXPECT_NE(outcome.text.find("rank 2"), std::string::npos) << outcome.text;
  }
}

TEST(CompressedAllReduce, HasTheSameBitsEverywhereAndLosesLittle) {
  for (const std::string_view clusters : {"AABB", "ABBC", "AAA"}) {
    std::vector<std::vector<float>> results(clusters.size());
    const bool several = clusters.find('B') != std::string_view::npos;
    const auto outcomes = run_ranks(
        clusters,
        [&](Communicator& communicator) {
          constexpr std::size_t kCount = 100'000;
          const auto own = static_cast<std::size_t>(communicator.rank());
          std::vector<float> values(kCount), residual(kCount, 0);
          double wanted = 0, got = 0;
          for (int round = 0; round < 20; ++round) {
            for (std::size_t i = 0; i < kCount; ++i)
              values[i] = static_cast<float>(((i + 3 * own + static_cast<std::size_t>(round)) % 1000)) / 1000;
            for (int rank = 0; rank < communicator.size(); ++rank)
              wanted += static_cast<double>((777 + 3 * rank + round) % 1000) / 1000;
            CollectiveCall call{Collective::kAllReduce, values.data(), values.data(), kCount,
                                DataType::kFloat32,     ReduceOp::kSum};
            call.compression = Compression::kInt8;
            call.residual = residual.data();
            communicator.run(call);
            got += static_cast<double>(values[777]);
          }
          EXPECT_EQ(communicator.last_algorithm(), several ? "two-level" : "ring");
          // With feedback the error of 20 sums is that of one: at most one encoding of each cluster's sum,
          // and one of the whole.
          EXPECT_NEAR(got, wanted, static_cast<double>(communicator.size()) * 2 / 254 + 1e-3);
          results[own] = values;
          // As the options say, here bf16, where the call does not; and exact where it is no sum of floats.
          std::vector<float> plain(kCount, 1.0F + 0x1p-20F);
          communicator.all_reduce(plain.data(), plain.data(), kCount, DataType::kFloat32, ReduceOp::kSum);
          const auto n = static_cast<float>(communicator.size());
          EXPECT_EQ(plain[5], several ? n : n * (1.0F + 0x1p-20F));
          communicator.all_reduce(values.data(), plain.data(), kCount, DataType::kFloat32, ReduceOp::kMax);
          EXPECT_EQ(plain, values) << "the same on all ranks";
          call_refuses(communicator);
        },
        [](Options& options) { options.compression = Compression::kBfloat16; });
    expect_fine(outcomes);
    for (const auto& one : results) EXPECT_EQ(one, results.front());
  }
}

TEST(ProgressByThread, GoesOnWhileTheCallerDoesSomethingElse) {
  for (const Place place : {Place::kManyHosts, Place::kOneHost}) {
    const auto outcomes = run_with(place, Progress::kThread, [](Communicator& communicator) {
      std::vector<std::int64_t> values(1'000'000, communicator.rank());
      std::atomic<bool> done{false};
      const Work work = communicator.start(all_reduce_of(values));
      communicator.when_done(work, [&](const Error* error) { done = error == nullptr; });
      // No call on the communicator until it is done.
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (!done && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      EXPECT_TRUE(done);
      EXPECT_EQ(values.back(), 3);
      communicator.wait(work);
    });
    expect_fine(outcomes);
  }
}

TEST(StartedAlone, IsDoneAtOnce) {
  const auto outcomes = run_with(
      Place::kManyHosts, Progress::kThread,
      [](Communicator& communicator) {
        std::vector<std::int64_t> values(3, 7);
        int calls = 0;
        const Work work = communicator.start(all_reduce_of(values));
        communicator.when_done(work, [&](const Error* error) { calls += error == nullptr ? 1 : 0; });
        EXPECT_EQ(calls, 1);
        EXPECT_TRUE(communicator.test(work));
        EXPECT_EQ(values[2], 7);
      },
      "A");
  expect_fine(outcomes);
}

}  // namespace
}  // namespace tombolo::collectives
