#include <gtest/gtest.h>

#include <atomic>
#include <thread>

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

}  // namespace
}  // namespace tombolo::collectives
