// What a waiting rank leaves to others of its processor. Ranks are threads.
#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "collectives/engine/communicator.h"
#include "collectives/testing/held_clock.h"
#include "collectives/testing/hooked_store.h"
#include "collectives/testing/test_support.h"
#include "compute/cores.h"
#include "transport/testing/forwarding_kernel.h"

namespace tombolo::collectives {
namespace {

using namespace test;

class CountedYields final : public transport::test::ForwardingKernel {
 public:
  int sched_yield() noexcept override {
    ++count;
    return ForwardingKernel::sched_yield();
  }
  std::atomic<int> count{0};
};

class WaitingRank : public testing::TestWithParam<Progress> {};

INSTANTIATE_TEST_SUITE_P(Everywhere, WaitingRank, testing::Values(Progress::kCaller, Progress::kThread),
                         [](const auto& one) {
                           return one.param == Progress::kCaller ? "Caller" : "Thread";
                         });

// More often than it does before the wait that counts time begins.
TEST_P(WaitingRank, YieldsItsProcessorWhileItSpins) {
  constexpr int kMany = 2000;
  CountedYields kernel;
  const transport::KernelInPlace in_place(kernel);
  const auto many = [&] {
    // With each of them others may have a whole turn.
    const auto late = Deadline::after(std::chrono::seconds(60));
    while (kernel.count < kMany && !late.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return kernel.count >= kMany;
  };
  expect_fine(run_ranks(
      "AA",
      [&](Communicator& all) {
        all.barrier();
        kernel.count = 0;
        all.barrier();
        if (all.rank() == 1) {
          EXPECT_TRUE(many());
          return all.barrier();
        }
        const Work barrier = all.start({});
        if (GetParam() == Progress::kThread) {
          EXPECT_TRUE(many());
        }
        all.wait(barrier);
      },
      [](Options& options) {
        options.router.host.name = "host";
        options.progress = GetParam();
        options.spin = std::chrono::minutes(2);
      }));
}

/// Yields of a thread until it first asks the kernel what has come: then it is about to sleep.
class YieldsBeforePolling final : public transport::test::ForwardingKernel {
 public:
  int sched_yield() noexcept override {
    if (counts()) ++count;
    return ForwardingKernel::sched_yield();
  }
  int poll(pollfd* handles, nfds_t number, int timeout_ms) noexcept override {
    if (counts()) polled = true;
    return ForwardingKernel::poll(handles, number, timeout_ms);
  }
  std::atomic<std::thread::id> watched;
  std::atomic<bool> polled{false};
  std::atomic<int> count{0};

 private:
  bool counts() const { return !polled && std::this_thread::get_id() == watched.load(); }
};

/// The yields of one of two ranks that waits for the other, where `processor` says to which one each binds
/// itself before it makes its communicator.
int yields_before_polling(const std::array<std::size_t, 2>& processor) {
  YieldsBeforePolling kernel;
  const transport::KernelInPlace in_place(kernel);
  expect_fine(run_ranks(
      "AA",
      [&](Communicator& all) {
        all.barrier();
        if (all.rank() == 0) {
          kernel.watched = std::this_thread::get_id();
        } else {
          const auto late = Deadline::after(std::chrono::seconds(60));
          while (!kernel.polled && !late.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          EXPECT_TRUE(kernel.polled) << "rank 0 does not sleep";
        }
        all.barrier();
        if (all.rank() == 0) kernel.watched = std::thread::id();
      },
      [&](Options& options) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(processor[static_cast<std::size_t>(options.identity.rank)], &set);
        EXPECT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
        options.router.host.name = "host";
        options.spin = std::nullopt;
      }));
  return kernel.count;
}

// As a launcher binds them. A wait that counts time, and spins, follows the one that does not.
TEST(BoundRanks, SpinWhereEachHasAnotherProcessor) {
  std::vector<std::size_t> usable;
  const auto own = compute::own_processors();
  for (std::size_t one = 0; one < own.size(); ++one)
    if (own[one]) usable.push_back(one);
  if (usable.size() < 2) GTEST_SKIP() << "there is one processor";
  EXPECT_GT(yields_before_polling({usable[0], usable[1]}), yields_before_polling({usable[0], usable[0]}));
}

// It asks the store whether the other one lives, which may take its time to answer.
TEST(WaitForARankThatIsToConnect, DoesNotStandStillWhileTheStoreDoesNotAnswer) {
  StoreHooks hooks;
  std::atomic<bool> armed{false}, asked{false}, received{false}, stood_still{false};
  const auto until = [](const std::atomic<bool>& done) {
    const auto late = Deadline::after(std::chrono::seconds(10));
    while (!done && !late.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return done.load();
  };
  hooks.before_connect = [&] {
    if (armed) stood_still = !until(received);
  };
  hooks.before_try_get = [&](std::string_view key) { asked = asked || key.ends_with("/read-by/0"); };
  expect_fine(run_ranks(
      "AA",
      [&](Communicator& all) {
        std::int64_t value = 7;
        if (all.rank() == 0) {
          until(asked);
          return all.send(&value, sizeof value, 1);
        }
        armed = true;
        all.receive(&value, sizeof value, 0);
        received = true;
        armed = false;
      },
      [&](Options& options) {
        if (options.identity.rank == 0) return;
        options.store =
            std::make_shared<HookedStore>(store_at("127.0.0.1", options.identity.port, kTestSecret), hooks);
      }));
  EXPECT_TRUE(asked);
  EXPECT_FALSE(stood_still);
}

class WaitsUnderADeadline : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Everywhere, WaitsUnderADeadline, testing::Bool(),
                         [](const auto& one) { return one.param ? "InMemory" : "ByMessages"; });

// What is given later counts, for one call or all that follow, on the rank that gave it.
TEST_P(WaitsUnderADeadline, GoByTheOneThatWasSetLast) {
  std::atomic<bool> over{false};
  const auto outcomes = run_ranks(
      "AA",
      [&](Communicator& all) {
        all.barrier();
        if (all.rank() == 1) {
          const auto late = Deadline::after(std::chrono::seconds(60));
          while (!over && !late.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          EXPECT_TRUE(over) << "rank 0 waits by the deadline that it began with";
          return;
        }
        all.set_deadline(std::chrono::milliseconds(50));
        try {
          const Work started = all.start({});
          all.wait(started);
          ADD_FAILURE() << "rank 1 has not come";
        } catch (const Error& error) {
          EXPECT_EQ(error.cause(), Cause::kTimeout) << error.what();
          EXPECT_NE(std::string(error.what()).find("nothing arrived for 50 ms"), std::string::npos)
              << error.what();
        }
        over = true;
      },
      [](Options& options) {
        if (GetParam()) options.router.host.name = "host";
        options.deadline = std::chrono::minutes(10);
      });
  EXPECT_FALSE(outcomes[0].threw) << outcomes[0].text;
}

// A rank that is known to take long is waited for. Time passes once the other one has found nothing to do.
TEST_P(WaitsUnderADeadline, LastLongerWhereALongerOneWasSet) {
  HeldClock clock;
  std::atomic<bool> armed{false};
  StoreHooks hooks;
  hooks.before_look = [&](StoreWatch&) {
    if (armed.exchange(false)) clock.advance(std::chrono::minutes(2));
  };
  expect_fine(run_ranks(
      "AA",
      [&](Communicator& all) {
        all.set_deadline(std::chrono::hours(1));
        const auto part = all.split(0, 0);
        part->barrier();
        if (all.rank() == 0) {
          armed = true;
        } else {
          const auto late = Deadline::after(std::chrono::seconds(60));
          while (!armed && !late.passed()) std::this_thread::yield();
          while (armed && !late.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          EXPECT_FALSE(armed) << "rank 0 does not look";
        }
        part->barrier();
      },
      [&](Options& options) {
        if (GetParam()) options.router.host.name = "host";
        options.deadline = std::chrono::minutes(1);
        options.router.clock = &clock;
        options.store =
            std::make_shared<HookedStore>(store_at("127.0.0.1", options.identity.port, kTestSecret), hooks);
      }));
}

}  // namespace
}  // namespace tombolo::collectives
