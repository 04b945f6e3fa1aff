#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string_view>
#include <thread>

#include "collectives/testing/held_clock.h"
#include "collectives/testing/hooked_store.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using namespace test;

TEST(Split, GoesByColorAndOrdersByKey) {
  expect_fine(run_ranks("AABBA", [](Communicator& all) {
    // Colors 0 1 0 1 -; descending keys turn the order around.
    const int color = all.rank() == 4 ? -1 : all.rank() % 2;
    const auto part = all.split(color, -all.rank());
    ASSERT_EQ(part == nullptr, all.rank() == 4);
    if (!part) return;
    EXPECT_EQ(part->size(), 2);
    EXPECT_EQ(part->rank(), all.rank() < 2 ? 1 : 0);
    std::int64_t value = all.rank();
    part->all_reduce(&value, &value, 1, DataType::kInt64, ReduceOp::kSum);
    EXPECT_EQ(value, color == 0 ? 0 + 2 : 1 + 3);
    EXPECT_EQ(part->members()[0].host, color == 0 ? "host2" : "host3");
  }));
}

TEST(Split, MakesPartsThatAreIndependentAcrossThreads) {
  expect_fine(run_ranks("AAAA", [](Communicator& all) {
    const auto rows = all.split(all.rank() / 2, 0), columns = all.split(all.rank() % 2, 0);
    const auto work = [](Communicator& one) {
      for (int i = 0; i < 50; ++i) {
        std::int32_t value = one.rank() + 1;
        one.all_reduce(&value, &value, 1, DataType::kInt32, ReduceOp::kSum);
        ASSERT_EQ(value, 3);
      }
    };
    std::thread other([&] { work(*columns); });
    work(*rows);
    other.join();
    all.barrier();
  }));
}

// Rank 0 keeps the store, and may end as soon as its own split is over.
TEST(Split, ReturnsOnlyOnceAllPartsHaveMet) {
  std::atomic<bool> splits{false}, met{false}, returned{false};
  StoreHooks hooks;
  hooks.before_connect = [&] {
    if (!splits) return;
    for (const auto late = Deadline::after(std::chrono::milliseconds(200)); !returned && !late.passed();)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    met = true;
  };
  expect_fine(run_ranks(
      "AAA",
      [&](Communicator& all) {
        all.barrier();
        if (all.rank() == 2) splits = true;
        const auto part = all.split(all.rank() == 0 ? -1 : 0, 0);
        EXPECT_TRUE(met) << "rank " << all.rank();
        returned = true;
        if (part) part->barrier();
      },
      [&](Options& options) {
        options.router.host.name = "one host";  // where leaving waits for nobody
        if (options.identity.rank == 2)
          options.store =
              std::make_shared<HookedStore>(store_at("127.0.0.1", options.identity.port, kTestSecret), hooks);
      }));
}

// ---- a part that cannot be made

/// Five ranks, each on a host of its own, in parts {0, 2, 4} and {1, 3}. `troubled`, of the first part, has
/// its calls of the store go through the hooks once the split has begun, and the others call `meets`, those
/// of that part when they come to where it meets, and those of the other when they have met. Every rank then
/// uses its part, if it got one, and the whole. Returns what split() threw, by rank.
std::vector<Outcome> split_with_trouble(
    int troubled, Duration deadline, const StoreHooks& hooks, const Clock& clock = Clock::steady(),
    const std::function<void()>& meets = [] {}) {
  std::atomic<bool> splits{false};
  StoreHooks once_it_splits;
  once_it_splits.before_connect = [&] {
    if (splits) hooks.before_connect();
  };
  once_it_splits.before_set = [&](std::string_view key) {
    if (splits) hooks.before_set(key);
  };
  StoreHooks of_others;
  of_others.before_put = [&](std::string_view key) {
    for (const std::string_view part : {"/1.0/present/", "/1.1/rank/read-by/"})
      if (key.find(part) != std::string_view::npos) meets();
  };
  std::vector<Outcome> thrown(5);
  expect_fine(run_ranks(
      "AABBA",
      [&](Communicator& all) {
        all.barrier();
        if (all.rank() == troubled) splits = true;
        std::unique_ptr<Communicator> part;
        try {
          part = all.split(all.rank() % 2, 0);
        } catch (const Error& error) {
          thrown[static_cast<std::size_t>(all.rank())] = {true, error.cause(), error.what()};
        }
        EXPECT_EQ(part != nullptr, all.rank() % 2 == 1) << "rank " << all.rank();
        std::int64_t value = all.rank();
        if (part) {
          part->all_reduce(&value, &value, 1, DataType::kInt64, ReduceOp::kSum);
          EXPECT_EQ(value, 1 + 3);
        }
        splits = false;
        value = all.rank();
        all.all_reduce(&value, &value, 1, DataType::kInt64, ReduceOp::kSum);
        EXPECT_EQ(value, 0 + 1 + 2 + 3 + 4);
        const auto again = all.split(0, -all.rank());
        value = all.rank();
        again->all_reduce(&value, &value, 1, DataType::kInt64, ReduceOp::kSum);
        EXPECT_EQ(value, 0 + 1 + 2 + 3 + 4);
      },
      [&](Options& options) {
        options.deadline = deadline;
        options.router.clock = &clock;
        options.store =
            std::make_shared<HookedStore>(store_at("127.0.0.1", options.identity.port, kTestSecret),
                                          options.identity.rank == troubled ? once_it_splits : of_others);
      }));
  return thrown;
}

void expect_first_part_names(const std::vector<Outcome>& thrown, std::string_view words) {
  for (const std::size_t rank : {0u, 2u, 4u}) {
    EXPECT_TRUE(thrown[rank].threw) << "rank " << rank;
    EXPECT_NE(thrown[rank].text.find(words), std::string::npos) << words << " in: " << thrown[rank].text;
    EXPECT_EQ(thrown[rank].cause, Cause::kSystem) << thrown[rank].text;
  }
  for (const std::size_t rank : {1u, 3u}) EXPECT_FALSE(thrown[rank].threw) << thrown[rank].text;
}

TEST(Split, ARankThatCannotMakeItsPartStopsTheOthersOfItAndNobodyElse) {
  for (const int troubled : {0, 2}) {
    int calls = 0;
    StoreHooks hooks;
    hooks.before_connect = [&] {
      if (calls++ == 0) fail(Cause::kSystem, "no descriptor is left");
    };
    const auto began = std::chrono::steady_clock::now();
    const auto deadline = std::chrono::minutes(5);
    const auto thrown = split_with_trouble(troubled, deadline, hooks);
    expect_first_part_names(
        thrown,
        fmt::format("split #1: rank {} on host host{} could not make its part (color 0, 3 ranks), which "
                    "therefore no rank has: no descriptor is left",
                    troubled, troubled));
    EXPECT_LT(std::chrono::steady_clock::now() - began, deadline) << "they waited for it";
  }
}

TEST(Split, ARankThatFailsAfterAllHaveMetTakesThePartFromThoseThatHaveIt) {
  StoreHooks hooks;
  hooks.before_set = [](std::string_view key) {
    if (key.find("read-by") != std::string_view::npos) fail(Cause::kSystem, "the disk of the store is full");
  };
  const auto thrown = split_with_trouble(4, std::chrono::seconds(60), hooks);
  expect_first_part_names(thrown, "rank 4 on host host4 could not make its part (color 0, 3 ranks), which");
  expect_first_part_names(thrown, "the disk of the store is full");
}

// It cannot tell them: they wait for it as long as a set-up may take, and the whole waits for them.
TEST(Split, ARankThatCannotReachTheStoreFailsItsPartAtTheDeadlineAndNotTheWhole) {
  StoreHooks hooks;
  hooks.before_connect = [] { fail(Cause::kSystem, "no route to the store"); };
  HeldClock clock;
  clock.hold();
  constexpr Duration kDeadline = std::chrono::seconds(10);
  std::atomic<int> met{0};
  expect_first_part_names(
      split_with_trouble(2, kDeadline, hooks, clock,
                         [&] {
                           if (++met == 4) clock.advance(kDeadline);
                         }),
      "rank 2 on host host2 could not make its part (color 0, 3 ranks), which therefore no "
      "rank has: no route to the store");
}

}  // namespace
}  // namespace tombolo::collectives
