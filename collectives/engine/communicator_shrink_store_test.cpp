// Where the ranks that are left meet once the store is gone, and who may go on then. Ranks are threads.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/unused_port_test.h"
#include "collectives/engine/communicator.h"
#include "collectives/testing/held_clock.h"
#include "collectives/testing/hooked_store.h"
#include "collectives/testing/shrinking.h"
#include "collectives/testing/test_support.h"
#include "transport/testing/forwarding_kernel.h"

namespace tombolo::collectives {
namespace {

using namespace test;

/// Runs ranks whose store is `store`, which any of them may end.
std::vector<Outcome> run_at(std::unique_ptr<StoreServer>& store, std::string_view clusters, const Body& body,
                            const Change& change = {}) {
  store = std::make_unique<StoreServer>("127.0.0.1", 0, kTestSecret, Log());
  return run_ranks(clusters, body, [&, port = store->port()](Options& options) {
    options.identity.port = port;
    if (change) change(options);
  });
}

TEST(Shrink, MeetsAtAnotherRankWhereTheStoreIsGone) {
  for (const bool in_memory : {false, true}) {
    std::unique_ptr<StoreServer> store;
    std::atomic<int> went_on{0};
    std::array<HeldClock, 4> clocks;
    const auto outcomes = run_at(
        store, "AABB",
        [&](Communicator& communicator) {
          HeldClock& own = clocks[static_cast<std::size_t>(communicator.rank())];
          EXPECT_EQ(sum_of_ones(communicator), 4);
          if (communicator.rank() == 0) {
            store.reset();
            throw Error(Cause::kInternal, "gives up");
          }
          fail_once(communicator);
          const auto left = shrink_in_no_time(communicator, own);
          EXPECT_EQ(left->size(), 3);
          EXPECT_EQ(left->rank(), communicator.rank() - 1);
          EXPECT_EQ(sum_of_ones(*left), 3);
          const auto part = left->split(0, 0);
          EXPECT_EQ(sum_of_ones(*part), 3);
          // And once more: now the rank is gone that has kept the store since.
          if (left->rank() == 0) throw Error(Cause::kInternal, "gives up, too");
          fail_once(*left);
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
    for (const std::size_t rank : {2U, 3U}) EXPECT_FALSE(outcomes[rank].threw) << outcomes[rank].text;
  }
}

// A job that was started again has one at the same address, with the same secret.
TEST(Shrink, DoesNotMeetInALaterStoreAtTheSameAddress) {
  std::unique_ptr<StoreServer> store;
  std::atomic<int> went_on{0};
  std::array<HeldClock, 3> clocks;
  run_at(
      store, "AAB",
      [&](Communicator& communicator) {
        EXPECT_EQ(sum_of_ones(communicator), 3);
        if (communicator.rank() == 0) {
          const int port = store->port();
          store.reset();
          store = std::make_unique<StoreServer>("127.0.0.1", port, kTestSecret, Log());
          throw Error(Cause::kInternal, "gives up");
        }
        fail_once(communicator);
        const auto left =
            shrink_in_no_time(communicator, clocks[static_cast<std::size_t>(communicator.rank())]);
        EXPECT_EQ(sum_of_ones(*left), 2);
        ++went_on;
      },
      [&](Options& options) {
        options.router.clock = &clocks[static_cast<std::size_t>(options.identity.rank)];
      });
  EXPECT_EQ(went_on, 2);
  const auto client = Store::connect("127.0.0.1", store->port(), kTestSecret,
                                     Deadline::after(std::chrono::seconds(60)), Log());
  for (const std::string_view end : {"decider/0", "ranks", "rank/0", "made"}) {
    const std::string key = fmt::format("{}/shrunk/1/{}", Options().store_prefix, end);
    EXPECT_FALSE(client->try_get(key)) << key;
  }
}

// It was slow, and they have gone on without it.
TEST(Shrink, RefusesAMinorityAlsoAtTheRankThatKeepsTheStore) {
  const int port = unused_port();
  std::atomic<int> went_on{0}, refused{0};
  std::atomic<bool> over{false};
  const auto late = Deadline::after(std::chrono::seconds(60));
  const auto await = [&](const std::function<bool()>& done) {
    while (!done() && !late.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const auto outcomes = run_ranks(
      "AABB",
      [&](Communicator& communicator) {
        if (communicator.rank() > 0) {
          const auto left = communicator.shrink({0});
          EXPECT_EQ(sum_of_ones(*left), 3);
          ++went_on;
          return await([&] { return over.load(); });
        }
        await([&] { return went_on == 3; });
        try {
          communicator.shrink({});
        } catch (const Error& error) {
          refused += error.cause() == Cause::kRemote ? 1 : 0;
          EXPECT_NE(std::string(error.what()).find("only 1 of 4 ranks that may live came to meet (came: 0;"),
                    std::string::npos)
              << error.what();
        }
        over = true;
      },
      [&](Options& options) {
        options.identity.port = port;
        options.store_elsewhere = false;
      });
  expect_fine(outcomes);
  EXPECT_EQ(refused, 1);
}

TEST(Shrink, LeavesTheRankThatKeepsTheStoreAloneWhereTheOtherOneIsGone) {
  const int port = unused_port();
  const auto outcomes = run_ranks(
      "AA",
      [&](Communicator& communicator) {
        if (communicator.rank() == 1) throw Error(Cause::kInternal, "gives up");
        fail_once(communicator);
        const auto left = communicator.shrink({});
        EXPECT_EQ(sum_of_ones(*left), 1);
      },
      [&](Options& options) {
        options.identity.port = port;
        options.store_elsewhere = false;
      });
  EXPECT_FALSE(outcomes[0].threw) << outcomes[0].text;
}

// Ranks come by a list at moments of their own, further apart than those that have noticed a failure.
TEST(Shrink, WaitsByAListForTheRankAtWhichTheOthersMeet) {
  const int port = unused_port();
  std::atomic<bool> waits{false}, over{false};
  const auto outcomes = run_ranks(
      "AAB",
      [&](Communicator& communicator) {
        const int rank = communicator.rank();
        const auto late = Deadline::after(std::chrono::seconds(60));
        const auto await = [&](const std::atomic<bool>& done) {
          while (!done && !late.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        };
        if (rank == 0) return await(over);
        if (rank == 1) {
          await(waits);
          // Longer than anybody is waited for without a list.
          std::this_thread::sleep_for(std::chrono::milliseconds(3500));
        }
        const auto left = communicator.shrink({0});
        EXPECT_EQ(sum_of_ones(*left), 2);
        over = true;
      },
      [&](Options& options) {
        options.identity.port = port;
        options.store_elsewhere = false;
        options.deadline = std::chrono::seconds(20);
        if (options.identity.rank != 2) return;
        options.log = Log(LogLevel::kInfo, [&](LogLevel, std::string_view text) {
          if (text.find("is excluded; the ranks that are left meet at rank 1's store") != text.npos)
            waits = true;
        });
      });
  expect_fine(outcomes);
  EXPECT_TRUE(waits);
}

// It may live, as one does that hangs: it has no part in what the others do.
TEST(Shrink, DoesWithoutTheStoreOfARankThatIsExcluded) {
  const int port = unused_port();
  const auto outcomes = run_ranks(
      "AABB",
      [&](Communicator& communicator) {
        if (communicator.rank() > 0) {
          const auto left = communicator.shrink({0});
          EXPECT_EQ(left->size(), 3);
          EXPECT_EQ(sum_of_ones(*left), 3);
          if (left->rank() != 2) {
            EXPECT_EQ(left->shrink({2})->size(), 2);
          }
        }
        EXPECT_EQ(sum_of_ones(communicator), 4) << "the whole is as usable as before";
      },
      [&](Options& options) {
        options.identity.port = port;
        options.store_elsewhere = false;
      });
  expect_fine(outcomes);
}

// Of two halves that do not see each other both might go on.
TEST(Shrink, RefusesAMinorityWhereTheStoreIsGone) {
  std::unique_ptr<StoreServer> store;
  std::atomic<int> refused{0};
  std::atomic<bool> over{false};
  const auto outcomes = run_at(store, "AAB", [&](Communicator& communicator) {
    EXPECT_EQ(sum_of_ones(communicator), 3);
    if (communicator.rank() < 2) {
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    store.reset();
    communicator.set_deadline(std::chrono::milliseconds(300));
    try {
      communicator.shrink({});
    } catch (const Error& error) {
      refused += error.cause() == Cause::kRemote ? 1 : 0;
      EXPECT_NE(std::string(error.what()).find("only 1 of 3 ranks that may live came to meet (came: 2;"),
                std::string::npos)
          << error.what();
    }
    over = true;
  });
  expect_fine(outcomes);
  EXPECT_EQ(refused, 1);
}

/// Counts to how many ports each thread has connected.
class CountedPorts final : public transport::test::ForwardingKernel {
 public:
  int connect(int socket, const sockaddr* to, socklen_t bytes) noexcept override {
    if (to->sa_family == AF_INET) {
      sockaddr_in address{};
      std::memcpy(&address, to, sizeof(address));
      const std::lock_guard lock(mutex_);
      ports_[std::this_thread::get_id()].insert(address.sin_port);
    }
    return ForwardingKernel::connect(socket, to, bytes);
  }
  /// The calling thread's, from here on.
  void forget() {
    const std::lock_guard lock(mutex_);
    ports_[std::this_thread::get_id()].clear();
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return ports_[std::this_thread::get_id()].size();
  }

 private:
  std::mutex mutex_;
  std::map<std::thread::id, std::set<in_port_t>> ports_;
};

// Of a thousand ranks each would have to, and would run out of descriptors.
TEST(Shrink, LetsOneRankAskWhichOthersLive) {
  CountedPorts kernel;
  const transport::KernelInPlace in_place(kernel);
  std::unique_ptr<StoreServer> store;
  std::atomic<int> went_on{0}, asked{0};
  std::array<HeldClock, 6> clocks;
  run_at(
      store, "AAABBB",
      [&](Communicator& communicator) {
        EXPECT_EQ(sum_of_ones(communicator), 6);
        if (communicator.rank() == 0) {
          store.reset();
          throw Error(Cause::kInternal, "gives up");
        }
        fail_once(communicator);
        kernel.forget();
        const auto left =
            shrink_in_no_time(communicator, clocks[static_cast<std::size_t>(communicator.rank())]);
        // The store that is gone, the one on standby that has gone with it, and the one at which they meet.
        asked += kernel.count() > 3 ? 1 : 0;
        EXPECT_EQ(sum_of_ones(*left), 5);
        ++went_on;
      },
      [&](Options& options) {
        one_host(options);
        options.router.clock = &clocks[static_cast<std::size_t>(options.identity.rank)];
      });
  EXPECT_EQ(went_on, 5);
  EXPECT_LE(asked, 1);
}

/// What is said to be at kAddress is in this host's loopback. Refuses connections to a port of it once that
/// is shut, as a firewall does; those that are there stay.
class ShutPort final : public transport::test::ForwardingKernel {
 public:
  static constexpr const char* kAddress = "198.51.100.1";

  explicit ShutPort(int port) : port_(port) {}
  int bind(int socket, const sockaddr* at, socklen_t bytes) noexcept override {
    const sockaddr_in own = in_loopback(at);
    return at->sa_family == AF_INET
               ? ForwardingKernel::bind(socket, reinterpret_cast<const sockaddr*>(&own), sizeof(own))
               : ForwardingKernel::bind(socket, at, bytes);
  }
  int connect(int socket, const sockaddr* to, socklen_t bytes) noexcept override {
    if (to->sa_family != AF_INET) return ForwardingKernel::connect(socket, to, bytes);
    const sockaddr_in own = in_loopback(to);
    if (!shut || ntohs(own.sin_port) != port_)
      return ForwardingKernel::connect(socket, reinterpret_cast<const sockaddr*>(&own), sizeof(own));
    errno = ECONNREFUSED;
    return -1;
  }
  std::atomic<bool> shut{false};

 private:
  static sockaddr_in in_loopback(const sockaddr* at) noexcept {
    sockaddr_in own{};
    std::memcpy(&own, at, sizeof(own));
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return own;
  }
  int port_;
};

TEST(Shrink, TakesAHostThatRefusesForDeadOnlyOnceItsConnectionsHaveEnded) {
  for (const bool dies : {false, true}) {
    const std::string address = ShutPort::kAddress;
    const int port = unused_port();
    ShutPort firewall(port);
    const transport::KernelInPlace in_place(firewall);
    std::atomic<int> went_on{0}, refused{0};
    std::atomic<bool> over{false};
    const auto outcomes = run_ranks(
        "AA",
        [&](Communicator& communicator) {
          EXPECT_EQ(sum_of_ones(communicator), 2);
          if (communicator.rank() == 0) {
            if (dies) throw Error(Cause::kInternal, "gives up");
            const auto late = Deadline::after(std::chrono::seconds(60));
            while (!over && !late.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            return;
          }
          if (dies) fail_once(communicator);
          firewall.shut = true;
          communicator.set_deadline(std::chrono::milliseconds(300));
          try {
            EXPECT_EQ(communicator.shrink({})->size(), 1);
            ++went_on;
          } catch (const Error& error) {
            refused += error.cause() == Cause::kRemote ? 1 : 0;
            EXPECT_NE(std::string(error.what()).find("only 1 of 2 ranks that may live"), std::string::npos)
                << error.what();
          }
          over = true;
        },
        [&](Options& options) {
          options.identity.port = port;
          options.identity.address = address;
          options.store_elsewhere = false;
          options.router.host.nics[0].addresses = {address};
        });
    EXPECT_FALSE(outcomes[1].threw) << outcomes[1].text;
    EXPECT_EQ(went_on, dies ? 1 : 0);
    EXPECT_EQ(refused, dies ? 0 : 1);
  }
}

TEST(Shrink, SaysWhoKeepsAStoreThatIsGoneWhereNoneStandsBy) {
  std::unique_ptr<StoreServer> store;
  StoreHooks none;
  const auto outcomes = run_at(
      store, "AAB",
      [&](Communicator& communicator) {
        EXPECT_EQ(sum_of_ones(communicator), 3);
        if (communicator.rank() == 0) {
          store.reset();
          throw Error(Cause::kInternal, "gives up");
        }
        fail_once(communicator);
        try {
          communicator.shrink({});
          ADD_FAILURE() << "without a store";
        } catch (const Error& error) {
          EXPECT_EQ(error.cause(), Cause::kRemote);
          EXPECT_NE(std::string(error.what()).find("the process that made the unique id, which is gone"),
                    std::string::npos)
              << error.what();
        }
      },
      [&](Options& options) {
        options.store =
            std::make_shared<HookedStore>(store_at("127.0.0.1", options.identity.port, kTestSecret), none);
      });
  for (const std::size_t rank : {1U, 2U}) EXPECT_FALSE(outcomes[rank].threw) << outcomes[rank].text;
}

}  // namespace
}  // namespace tombolo::collectives
