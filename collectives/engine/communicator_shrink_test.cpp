// The ranks that are left go on without the others. Ranks are threads.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/unused_port_test.h"
#include "collectives/engine/communicator.h"
#include "collectives/testing/held_clock.h"
#include "collectives/testing/hooked_store.h"
#include "collectives/testing/test_support.h"
#include "transport/testing/forwarding_kernel.h"

namespace tombolo::collectives {
namespace {

using namespace test;

std::int64_t sum_of_ones(Communicator& communicator) {
  std::int64_t value = 1;
  communicator.all_reduce(&value, &value, 1, DataType::kInt64, ReduceOp::kSum);
  return value;
}

/// Those that come are waited for, however slow the machine: no time passes for this rank meanwhile.
std::unique_ptr<Communicator> shrink_in_no_time(Communicator& communicator, HeldClock& own) {
  own.hold();
  auto left = communicator.shrink({});
  own.let_go();
  return left;
}

void one_host(Options& options) {
  options.router.host.name = "host";
}

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
            EXPECT_THROW(
                {
                  for (;;) sum_of_ones(*left);
                },
                Error);
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

/// Hooks that count how often one looks whether a rank has come, once so many have. It sees them all from the
/// second look on.
struct Arrivals {
  explicit Arrivals(int awaited, int others) {
    // A rank counts itself once the store holds that it is there.
    hooks.before_put = [this](std::string_view key) { come += key.ends_with("/decider/0") ? 1 : 0; };
    hooks.before_try_get = [this, others, end = fmt::format("/here/{}", awaited)](std::string_view key) {
      if (key.ends_with(end) && come == others) ++looks;
    };
  }
  void into(Options& options) const {
    options.store =
        std::make_shared<HookedStore>(store_at("127.0.0.1", options.identity.port, kTestSecret), hooks);
  }

  StoreHooks hooks;
  std::atomic<int> come{0}, looks{0};
};

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

TEST(Shrink, RefusesListsThatDiffer) {
  std::atomic<int> refused{0}, over{0};
  HeldClock clock;
  clock.hold();
  const auto outcomes = run_ranks(
      "AAB",
      [&](Communicator& communicator) {
        if (communicator.rank() == 2) return;
        try {
          const auto left =
              communicator.shrink(communicator.rank() == 0 ? std::vector{2} : std::vector{0, 2});
        } catch (const Error& error) {
          if (error.cause() == Cause::kInvalidUsage) ++refused;
        }
        // The other one waits for this one until its deadline passes.
        for (++over; over < 2;) {
          clock.advance(std::chrono::seconds(1));
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      },
      [&](Options& options) { options.router.clock = &clock; });
  EXPECT_EQ(refused, 1);
}

// The first one goes on alone: the other one comes later, and would not be waited for.
TEST(Shrink, RefusesAListBesideNone) {
  for (const int with_list : {0, 1}) {  // the first one, or the other
    std::atomic<bool> went_on{false}, advanced{false};
    std::atomic<int> refused{0};
    Arrivals arrivals(1, 1);
    FakeClock clock;
    arrivals.hooks.before_try_get = [&, counts = arrivals.hooks.before_try_get](std::string_view key) {
      counts(key);
      if (arrivals.looks == 3 && !advanced.exchange(true)) clock.advance(std::chrono::seconds(4));
    };
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
  std::atomic<bool> decided{false}, advanced{false};
  std::atomic<int> late{0};
  Arrivals arrivals(2, 2);
  FakeClock clock;
  // Longer than anybody waits for one that lives; the deadline is for later.
  arrivals.hooks.before_try_get = [&, counts = arrivals.hooks.before_try_get](std::string_view key) {
    counts(key);
    if (arrivals.looks == 3 && !advanced.exchange(true)) clock.advance(std::chrono::seconds(4));
  };
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

/// Runs ranks whose store is `store`, which any of them may end.
std::vector<Outcome> run_at(std::unique_ptr<StoreServer>& store, std::string_view clusters, const Body& body,
                            const Change& change = {}) {
  store = std::make_unique<StoreServer>("127.0.0.1", 0, kTestSecret, Log());
  return run_ranks(clusters, body, [&, port = store->port()](Options& options) {
    options.identity.port = port;
    if (change) change(options);
  });
}

void fail_once(Communicator& communicator) {
  EXPECT_THROW(
      {
        for (;;) sum_of_ones(communicator);
      },
      Error);
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
  for (const int rank : {1, 2}) {
    const std::string key = fmt::format("{}/shrunk/1/here/{}", Options().store_prefix, rank);
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

// It has come, and dies before it is part of what the others make.
TEST(Shrink, FailsSoonWhereARankDiesInItAndIsMadeAgain) {
  StoreHooks hooks;
  std::array<HeldClock, 4> clocks;
  std::atomic<int> again{0};
  // Until they have agreed who goes on, no time passes for any of them.
  hooks.before_put = [&](std::string_view key) {
    if (key.find("/shrunk/") == key.npos || key.find("/rank/") == key.npos) return;
    if (key.ends_with("/shrunk/1/rank/1")) throw Error(Cause::kInternal, "dies");
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
  std::atomic<std::thread::id> first;
  hooks.before_put = [&](std::string_view key) {
    if (!key.ends_with("/decider/0")) return;
    std::thread::id none;
    first.compare_exchange_strong(none, std::this_thread::get_id());
  };
  hooks.before_try_get = [&](std::string_view key) {
    if (key.find("/shrunk/1/here/") == key.npos || first.load() != std::this_thread::get_id()) return;
    ++died;
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
