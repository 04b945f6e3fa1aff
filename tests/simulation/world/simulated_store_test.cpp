#include "tests/simulation/world/simulated_store.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tombolo::simulation {
namespace {

using collectives::StoreWatch;
using std::chrono::seconds;

class StoreInMemory : public testing::Test {
 protected:
  static std::vector<std::byte> bytes(std::string_view text) {
    const auto all = std::as_bytes(std::span(text));
    return {all.begin(), all.end()};
  }
  std::unique_ptr<collectives::Store> connect(unsigned host) {
    return store_.access(host)->connect(Deadline::after(seconds(2), world_.clock()), Log());
  }
  template <typename Action>
  static Cause cause_of(const Action& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.cause();
    }
    return Cause::kInternal;
  }

  Plan plan_;
  World world_{plan_};
  SimulatedStore store_{world_};
};

TEST_F(StoreInMemory, AGetWaitsForTheKeyAndTheFirstClaimCounts) {
  std::vector<std::byte> got, second;
  world_.add(1, [&] { got = connect(1)->get("key", Deadline::after(seconds(1), world_.clock())); });
  world_.add(0, [&] {
    world_.sleep({}, world_.clock().now() + std::chrono::milliseconds(30));
    const auto store = connect(0);
    store->claim("key", bytes("first"));
    second = store->claim("key", bytes("second"));
  });
  EXPECT_EQ(world_.run(seconds(5)), "");
  EXPECT_EQ(got, bytes("first"));
  EXPECT_EQ(second, bytes("first"));
}

TEST_F(StoreInMemory, AKeyThatDoesNotComeIsATimeout) {
  Cause cause = Cause::kInternal;
  world_.add(1, [&] {
    const auto store = connect(1);
    EXPECT_FALSE(store->try_get("key"));
    cause = cause_of([&] { store->get("key", Deadline::after(seconds(1), world_.clock())); });
  });
  EXPECT_EQ(world_.run(seconds(5)), "");
  EXPECT_EQ(cause, Cause::kTimeout);
  EXPECT_GE(world_.elapsed(), 1.0);
}

TEST_F(StoreInMemory, AWatchSeesWhatWasSetBeforeTheStoreClosed) {
  const auto deadline = Deadline::after(seconds(1), world_.clock());
  const auto set = store_.access(1)->watch("key", "", deadline),
             unset = store_.access(1)->watch("other", "", deadline);
  EXPECT_EQ(set->check(), StoreWatch::News::kNone);
  world_.add(0, [&] {
    connect(0)->set("key", bytes("value"));
    store_.leave();
  });
  EXPECT_EQ(world_.run(seconds(5)), "");
  EXPECT_EQ(set->check(), StoreWatch::News::kValue);
  EXPECT_EQ(set->value(), bytes("value"));
  EXPECT_EQ(unset->check(), StoreWatch::News::kStoreLeft);
}

TEST_F(StoreInMemory, KeepsAPresenceUntilItsWatchEndsOrItsProcessDies) {
  const auto deadline = Deadline::after(seconds(1), world_.clock());
  auto first = store_.access(1)->watch("key", "one", deadline),
       second = store_.access(2)->watch("key", "two", deadline);
  world_.add(0, [&] {
    const auto store = connect(0);
    EXPECT_TRUE(store->try_get("one") && store->try_get("two"));
    first.reset();
    world_.kernel().kill(2);
    EXPECT_FALSE(store->try_get("one") || store->try_get("two"));
  });
  EXPECT_EQ(world_.run(seconds(5)), "");
}

TEST_F(StoreInMemory, DiesWithItsProcess) {
  Cause of_client = Cause::kInternal, of_connect = Cause::kInternal;
  const auto watch = store_.access(1)->watch("key", "", Deadline::after(seconds(1), world_.clock()));
  world_.add(1, [&] {
    const auto store = connect(1);
    world_.kernel().kill(0);
    of_client = cause_of([&] { store->try_get("key"); });
    of_connect = cause_of([&] { connect(1); });
  });
  EXPECT_EQ(world_.run(seconds(5)), "");
  EXPECT_EQ(of_client, Cause::kRemote);
  EXPECT_EQ(of_connect, Cause::kTimeout);
  EXPECT_EQ(watch->check(), StoreWatch::News::kStoreLost);
}

}  // namespace
}  // namespace tombolo::simulation
