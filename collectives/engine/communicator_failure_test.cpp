// What goes wrong between ranks, and what is said of it.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include "base/unused_port_test.h"
#include "collectives/testing/held_clock.h"
#include "collectives/testing/hooked_store.h"
#include "collectives/testing/test_support.h"
#include "transport/testing/forwarding_kernel.h"

namespace tombolo::collectives {
namespace {

using namespace test;

void expect_words(const Outcome& outcome, std::initializer_list<std::string_view> words) {
  EXPECT_TRUE(outcome.threw);
  for (const auto word : words)
    EXPECT_NE(outcome.text.find(word), std::string::npos) << word << " in: " << outcome.text;
}

TEST(CommunicatorFailure, NamesEveryMissingRankOnEveryRank) {
  HeldClock clock;
  FirstLooks looks(clock, 2);
  std::atomic<int> port{0};
  const auto outcomes = run_ranks(
      "AA", [](Communicator&) {},
      [&](Options& options) {
        port = options.identity.port;
        options.identity.size = 4;
        looks.into(options);
      });
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.cause, Cause::kTimeout);
    expect_words(outcome,
                 {"ranks 2, 3 of 4 did not arrive within 60 s", "127.0.0.1:" + std::to_string(port)});
  }
}

TEST(CommunicatorFailure, RankZeroStaysUntilAllHaveSeenWhyItGivesUp) {
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    const int port = unused_port();
    std::vector<Outcome> outcomes(3);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        Options options = options_for("AAA", rank, port);
        options.store_elsewhere = false;
        if (rank == 0) options.tuning.segment_bytes = 12345;
        try {
          Communicator::create(options);
        } catch (const Error& error) {
          outcomes[static_cast<std::size_t>(rank)] = {true, error.cause(), error.what()};
        }
      });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& outcome : outcomes) {
      EXPECT_EQ(outcome.cause, Cause::kInvalidUsage) << "round " << round;
      expect_words(outcome, {"was started with another TOMBOLO_SEGMENT"});
    }
    if (HasFailure()) return;
  }
}

TEST(CommunicatorFailure, RanksBehindRankZeroLearnWhoWasMissing) {
  // Rank 0 keeps the store here, and closes it when it gives up.
  const int port = unused_port();
  HeldClock of_rank_0;
  of_rank_0.hold();
  std::vector<Outcome> outcomes(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Options options = options_for("AAA", rank, port);
      options.store_elsewhere = false;
      if (rank == 0) {
        options.deadline = std::chrono::seconds(1);
        options.router.clock = &of_rank_0;
      }
      try {
        Communicator::create(options);
      } catch (const Error& error) {
        outcomes[static_cast<std::size_t>(rank)] = {true, error.cause(), error.what()};
      }
    });
  }
  {
    const auto deadline = Deadline::after(std::chrono::seconds(60));
    const auto store = Store::connect("127.0.0.1", port, kTestSecret, deadline, Log());
    for (const int rank : {0, 1}) store->get(fmt::format("comm/0/present/{}", rank), deadline);
  }
  of_rank_0.let_go();
  for (auto& thread : threads) thread.join();
  expect_words(outcomes[0], {"rank 2 of 3 did not arrive"});
  expect_words(outcomes[1], {"rank 0 gave up while rank"});
}

TEST(CommunicatorFailure, RejectsAWrongSecretAndATwiceTakenRank) {
  StoreServer server("127.0.0.1", 0, kTestSecret, Log());
  Options options = options_for("AA", 1, server.port());
  options.secret = transport::Secret::from_text("another");
  try {
    Communicator::create(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("wrong secret"), std::string::npos) << error.what();
  }
  // Of which one goes on to wait for rank 1.
  HeldClock clocks[2];
  FirstLooks looks[2]{{clocks[0], 1}, {clocks[1], 1}};
  const auto twice = run_ranks(
      "AA", [](Communicator&) {},
      [&](Options& one) {
        looks[one.identity.rank].into(one);
        one.identity.rank = 0;
      });
  EXPECT_TRUE(twice[0].threw && twice[1].threw);
  EXPECT_NE((twice[0].text + twice[1].text).find("two processes say that they are rank 0"),
            std::string::npos);
}

// Without a secret anyone can write the record of a rank that has not come yet. Four million nested arrays
// ended every rank with a stack overflow when records were CBOR.
TEST(CommunicatorFailure, AStrangersRecordIsAnErrorThatNamesTheRank) {
  StoreServer server("127.0.0.1", 0, kTestSecret, Log());
  const auto stranger = Store::connect("127.0.0.1", server.port(), kTestSecret,
                                       Deadline::after(std::chrono::seconds(60)), Log());
  for (const int byte : {0x81, 0x9f, 0x5b, 0x00}) {
    stranger->set("comm/0/rank/0", std::vector<std::byte>(4 << 20, static_cast<std::byte>(byte)));
    try {
      Communicator::create(options_for("AA", 0, server.port()));
      FAIL() << byte;
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kRemote);
      EXPECT_NE(std::string(error.what()).find("rank 0 published a record"), std::string::npos)
          << error.what();
    }
  }
}

TEST(CommunicatorFailure, SaysThatThePortIsInUse) {
  StoreServer server("127.0.0.1", 0, kTestSecret, Log());
  Options options = options_for("AA", 0, server.port());
  options.store_elsewhere = false;
  try {
    Communicator::create(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kSystem);
    EXPECT_NE(std::string(error.what()).find("port in use"), std::string::npos) << error.what();
  }
}

TEST(CommunicatorFailure, RejectsDifferentSettings) {
  const auto outcomes = run_ranks(
      "AA", [](Communicator&) {},
      [](Options& options) {
        if (options.identity.rank == 1) options.algorithm = "ring";
      });
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.cause, Cause::kInvalidUsage);
    expect_words(outcome, {"TOMBOLO_ALGORITHM", "ring", "auto"});
  }
}

TEST(CommunicatorFailure, ARankThatLeavesByAnExceptionFailsTheOthers) {
  const auto outcomes = run_ranks("AABB", [](Communicator& all) {
    std::vector<float> data(50'000, 1);
    for (int i = 0; i < 1000; ++i) {
      if (all.rank() == 2 && i == 3) fail(Cause::kSystem, "the trainer of rank 2 broke");
      all.all_reduce(data.data(), data.data(), data.size(), DataType::kFloat32, ReduceOp::kSum);
    }
  });
  // A deadline would say kTimeout.
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    expect_words(outcomes[rank], {"rank 2"});
    if (rank != 2) {
      EXPECT_EQ(outcomes[rank].cause, Cause::kRemote) << outcomes[rank].text;
    }
  }
}

/// `absent` is alive, but elsewhere, while the others reduce.
std::vector<Outcome> run_without(std::string_view clusters, int absent) {
  std::atomic<int> failed{0};
  HeldClock clock;
  GoesOnceAllHaveCome begin(clock, static_cast<int>(clusters.size()));
  return run_ranks(
      clusters,
      [&](Communicator& all) {
        all.barrier();
        begin.comes();
        if (all.rank() == absent) {
          const auto deadline = Deadline::after(std::chrono::seconds(40));
          while (failed < all.size() - 1 && !deadline.passed())
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          all.barrier();
        }
        std::vector<float> data(1'000'000, 1);
        try {
          all.all_reduce(data.data(), data.data(), data.size(), DataType::kFloat32, ReduceOp::kSum);
        } catch (...) {
          ++failed;
          throw;
        }
      },
      [&](Options& options) {
        options.deadline = std::chrono::seconds(4);
        options.router.clock = &clock;
      });
}

// In a ring most ranks wait for one that waits itself: the first rank that gave up has found out which does
// not.
TEST(CommunicatorFailure, AStuckWaitEndsAtTheDeadlineAndNamesWhoIsAbsentAndNobodyElse) {
  const std::pair<const char*, int> cases[] = {{"AAA", 2}, {"AAAA", 1}, {"AABB", 0}};
  std::vector<std::future<std::vector<Outcome>>> running;
  for (const auto& [clusters, absent] : cases)
    running.push_back(std::async(std::launch::async, run_without, clusters, absent));
  for (std::size_t i = 0; i < running.size(); ++i) {
    const auto outcomes = running[i].get();
    const int absent = cases[i].second;
    const std::string suspects =
        fmt::format("not waiting themselves: rank {} on host host{}", absent, absent);
    for (int rank = 0; rank < static_cast<int>(outcomes.size()); ++rank) {
      const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      EXPECT_TRUE(outcome.threw);
      if (rank == absent) continue;
      expect_words(outcome, {"all_reduce #2 (3.81 MiB float sum): waiting for rank"});
      EXPECT_TRUE(outcome.text.ends_with(suspects)) << outcome.text;
    }
  }
}

// The lower rank would connect. The higher one only waits for it, and once waited for ever where it polled.
TEST(CommunicatorFailure, ARankThatDiedBeforeItConnectedFailsTestsAtTheDeadlineAndIsNamed) {
  StoreServer server("127.0.0.1", 0, kTestSecret, Log());
  std::thread dies([&] { Communicator::create(options_for("AA", 0, server.port())); });
  FakeClock clock;
  Options options = options_for("AA", 1, server.port());
  options.router.clock = &clock;
  const auto lives = Communicator::create(options);
  dies.join();
  std::byte message{};
  const Work work = lives->start_receive(&message, 1, 0);
  const auto done_after_many_tests = [&] {
    for (int i = 0; i < 200; ++i)
      if (lives->test(work)) return true;
    return false;
  };
  EXPECT_FALSE(done_after_many_tests());
  clock.advance(options.deadline - std::chrono::seconds(1));
  EXPECT_FALSE(done_after_many_tests());
  clock.advance(std::chrono::seconds(2));
  try {
    done_after_many_tests();
    FAIL() << "no failure";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kTimeout);
    EXPECT_NE(std::string(error.what()).find("rank 0 on host host0 has not connected to rank 1 within 60"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(lives->failure_cause(), Cause::kTimeout);
}

// The store knows of its end, also where no host's memory does. A wait to its deadline would be kTimeout.
TEST(CommunicatorFailure, ARankThatDiedBeforeItConnectedFailsAWaitLongBeforeTheDeadline) {
  StoreServer server("127.0.0.1", 0, kTestSecret, Log());
  std::thread dies([&] { Communicator::create(options_for("AA", 0, server.port())); });
  const auto lives = Communicator::create(options_for("AA", 1, server.port()));
  dies.join();
  std::byte message{};
  try {
    lives->receive(&message, 1, 0);
    FAIL() << "no failure";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kRemote);
    EXPECT_NE(
        std::string(error.what()).find("rank 0 on host host0 failed: it was gone before it had connected"),
        std::string::npos)
        << error.what();
  }
}

TEST(CommunicatorFailure, AbortFromAnotherThreadEndsAllRanks) {
  const auto outcomes = run_ranks("AAB", [](Communicator& all) {
    all.barrier();
    std::thread aborter;
    if (all.rank() == 1) {
      aborter = std::thread([&] { all.abort("the user pressed a button"); });
    }
    struct Join {
      std::thread& thread;
      ~Join() {
        if (thread.joinable()) thread.join();
      }
    } join{aborter};
    std::byte one{};
    all.receive(&one, 1, (all.rank() + 1) % all.size());  // nobody sends
  });
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.cause, Cause::kAborted) << outcome.text;
    expect_words(outcome, {"rank 1", "the user pressed a button"});
  }
}

// Of the earlier job a rank may be left, which would end the one that was started again.
TEST(CommunicatorFailure, ARankLeavesAloneTheStoreOfALaterJobAtTheSameAddress) {
  auto store = std::make_unique<StoreServer>("127.0.0.1", 0, kTestSecret, Log());
  const int port = store->port();
  std::atomic<bool> over{false};
  const auto outcomes = run_ranks(
      "AA",
      [&](Communicator& all) {
        all.barrier();
        if (all.rank() == 0) {
          const auto late = Deadline::after(std::chrono::seconds(60));
          while (!over && !late.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return;
        }
        store.reset();
        store = std::make_unique<StoreServer>("127.0.0.1", port, kTestSecret, Log());
        all.set_deadline(std::chrono::milliseconds(50));
        try {
          all.barrier();
          ADD_FAILURE() << "rank 0 has not come";
        } catch (const Error& error) {
          EXPECT_EQ(error.cause(), Cause::kTimeout) << error.what();
          EXPECT_NE(std::string(error.what()).find("another store listens there now"), std::string::npos)
              << error.what();
        }
        over = true;
      },
      [&](Options& options) { options.identity.port = port; });
  EXPECT_FALSE(outcomes[1].threw) << outcomes[1].text;
  const auto client =
      Store::connect("127.0.0.1", port, kTestSecret, Deadline::after(std::chrono::seconds(60)), Log());
  for (const std::string_view key : {"comm/0/abort", "comm/0/stuck/1"})
    EXPECT_FALSE(client->try_get(key)) << key;
}

TEST(CommunicatorFailure, EveryLaterCallFailsTheSameWay) {
  run_ranks("AA", [](Communicator& all) {
    all.barrier();
    all.abort("enough");
    for (int i = 0; i < 2; ++i) {
      try {
        all.barrier();
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_EQ(error.cause(), Cause::kAborted);
        EXPECT_NE(std::string(error.what()).find("enough"), std::string::npos) << error.what();
      }
    }
  });
}

TEST(CommunicatorFailure, DifferentCountsAreAnErrorNotAHang) {
  const auto outcomes = run_ranks("AA", [](Communicator& all) {
    std::vector<float> data(100, 1);
    all.all_reduce(data.data(), data.data(), all.rank() == 0 ? 100 : 90, DataType::kFloat32, ReduceOp::kSum);
  });
  EXPECT_TRUE(outcomes[0].threw && outcomes[1].threw);
}

TEST(CommunicatorFailure, RejectsBadArguments) {
  run_ranks("A", [](Communicator& all) {
    std::vector<float> data(10);
    const auto sum = [&](const void* send, void* receive, std::size_t count) {
      all.all_reduce(send, receive, count, DataType::kFloat32, ReduceOp::kSum);
    };
    EXPECT_THROW(sum(nullptr, data.data(), 1), Error);
    EXPECT_THROW(sum(data.data(), data.data() + 1, 5), Error);
    EXPECT_THROW(sum(data.data(), data.data(), ~std::size_t{0} / 2), Error);
    EXPECT_THROW(all.broadcast(data.data(), data.data(), 1, DataType::kFloat32, 1), Error);
    EXPECT_THROW(all.send(data.data(), 1, -1), Error);
    EXPECT_THROW(all.wait(Work{WorkKind::kMessage, 7, 7}), Error);
    sum(data.data(), data.data(), 10);  // usage errors leave the communicator usable
  });
}

TEST(CommunicatorFailure, LeavingEarlyKeepsWhatWasSent) {
  // Rank 0 is gone long before rank 1 looks.
  for (int round = 0; round < 5; ++round) {
    expect_fine(run_ranks("AA", [](Communicator& all) {
      std::vector<std::uint32_t> data(30'000, 7);
      if (all.rank() == 0) {
        all.send(data.data(), data.size() * 4, 1);
      } else {
        const Work work = all.start_receive(data.data(), data.size() * 4, 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        all.wait(work);
      }
    }));
  }
}

/// Calls a function before each read of another process's memory by a thread.
class WatchedReads final : public transport::test::ForwardingKernel {
 public:
  static inline thread_local std::function<void()> before_read;
  ssize_t process_vm_readv(pid_t process, const iovec* mine, unsigned long count, const iovec* theirs,
                           unsigned long their_count, unsigned long flags) noexcept override {
    if (before_read) before_read();
    return ForwardingKernel::process_vm_readv(process, mine, count, theirs, their_count, flags);
  }
};

/// Two ranks read each other's sums, whatever the caches of the machine hold, in 16 turns.
constexpr std::size_t kReadBySums = std::size_t{64} << 20;

// It moves in every turn until it is done, and nothing is waited for meanwhile.
TEST(CommunicatorFailure, ALargeCopyInsideAHostIsAborted) {
  WatchedReads kernel;
  const transport::KernelInPlace in_place(kernel);
  const auto outcomes = run_ranks(
      "AA",
      [](Communicator& all) {
        std::vector<std::byte> values(kReadBySums);
        all.barrier();
        if (all.rank() == 1) WatchedReads::before_read = [&] { all.abort("the user pressed a button"); };
        all.all_reduce(values.data(), values.data(), values.size(), DataType::kInt8, ReduceOp::kSum);
      },
      [](Options& options) {
        options.router.host.name = "host";
        options.host_limit = kReadBySums;
      });
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.cause, Cause::kAborted);
    expect_words(outcome, {"the user pressed a button"});
  }
}

// A rank that has read all has nothing to do itself until the others have, too.
TEST(CommunicatorFailure, NoDeadlinePassesWhileAnotherRankOfTheHostCopies) {
  WatchedReads kernel;
  const transport::KernelInPlace in_place(kernel);
  FakeClock clock;
  test::expect_fine(run_ranks(
      "AA",
      [&](Communicator& all) {
        std::vector<std::byte> values(kReadBySums);
        all.barrier();
        if (all.rank() == 1) {
          WatchedReads::before_read = [&] {
            clock.advance(std::chrono::seconds(1));
            std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that the other one waits
          };
        }
        all.all_reduce(values.data(), values.data(), values.size(), DataType::kInt8, ReduceOp::kSum);
        WatchedReads::before_read = nullptr;
      },
      [&](Options& options) {
        options.router.host.name = "host";
        options.host_limit = kReadBySums;
        options.router.clock = &clock;
        options.deadline = std::chrono::seconds(10);
      }));
}

// What a rank published before it gave up counts, also where another one is late to read it.
TEST(CommunicatorFailure, AfterTheSetUpIsNoFailureOfALateRanksSetUp) {
  std::atomic<bool> gave_up{false}, made{false};
  StoreHooks hooks;
  hooks.before_look = [&](StoreWatch&) {
    const auto late = Deadline::after(std::chrono::seconds(20));
    while (!made && !gave_up && !late.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const auto outcomes = run_ranks(
      "AA",
      [&](Communicator& all) {
        if (all.rank() == 0) {
          made = true;
          return;
        }
        all.abort("it has seen enough");
        EXPECT_THROW(all.barrier(), Error);
        gave_up = true;
      },
      [&](Options& options) {
        if (options.identity.rank == 0)
          options.store =
              std::make_shared<HookedStore>(store_at("127.0.0.1", options.identity.port, kTestSecret), hooks);
      });
  EXPECT_TRUE(made) << outcomes[0].text;
}

}  // namespace
}  // namespace tombolo::collectives
