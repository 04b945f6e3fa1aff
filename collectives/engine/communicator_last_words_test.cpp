// What a rank's last messages are worth to others that know already that it is gone: nothing that it did
// before is lost.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "collectives/testing/hooked_store.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using namespace test;
using std::chrono::milliseconds;
using std::chrono::seconds;

template <typename Done>
void wait_until(const Done& done, const char* what) {
  for (const auto deadline = Deadline::after(seconds(60)); !done();) {
    if (deadline.passed()) fail(Cause::kTimeout, "the test waits in vain: {}", what);
    std::this_thread::sleep_for(milliseconds(1));
  }
}

enum class Way { kNetwork, kHostMemory };

/// Where all ranks are to use one host's memory they are on that host.
void put_on_host(Options& options, Way way) {
  if (way == Way::kHostMemory) options.router.host.name = "one host";
}

void use_hooked_store(Options& options, const StoreHooks& hooks) {
  options.store =
      std::make_shared<HookedStore>(store_at("127.0.0.1", options.identity.port, kTestSecret), hooks);
}

using Part = std::function<void(Communicator&)>;

/// Rank 0 does its part, which is to receive what kernels hold, while rank 1 does its own and then gives up:
/// not before rank 0 has begun the look that finds rank 1's note, so that what rank 1 did lies between that
/// look and the one for its messages.
void expect_rank_0_done(Way way, const Part& first, const Part& second) {
  std::atomic<bool> hold{false}, looks{false};
  StoreHooks hooks;
  hooks.before_look = [&](StoreWatch& watch) {
    if (!hold) return;
    looks = true;
    wait_until([&] { return watch.check() != StoreWatch::News::kNone; }, "for a note in the store");
  };
  const auto outcomes = run_ranks(
      "AA",
      [&](Communicator& all) {
        all.barrier();
        all.connect_to(1 - all.rank());
        if (all.rank() == 0) {
          hold = true;
          first(all);
          return;
        }
        wait_until([&] { return looks.load(); }, "for rank 0 to look");
        second(all);
        fail(Cause::kSystem, "rank 1 breaks");
      },
      [&](Options& options) {
        if (options.identity.rank == 0) use_hooked_store(options, hooks);
        put_on_host(options, way);
      });
  EXPECT_FALSE(outcomes[0].threw) << outcomes[0].text;
  EXPECT_TRUE(outcomes[1].threw);
}

class LastWords : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Over, LastWords, testing::Values(Way::kNetwork, Way::kHostMemory),
                         [](const auto& one) {
                           return one.param == Way::kNetwork ? "Network" : "HostMemory";
                         });

TEST_P(LastWords, OfARankThatGivesUpRightBehindACollectiveCompleteIt) {
  for (const std::size_t count : {1, 500}) {  // small enough for one round
    const Part reduce = [&](Communicator& all) {
      std::vector<std::int32_t> data(count, all.rank() + 1);
      all.all_reduce(data.data(), data.data(), count, DataType::kInt32, ReduceOp::kSum);
      EXPECT_EQ(data, std::vector<std::int32_t>(count, 3));
    };
    expect_rank_0_done(GetParam(), reduce, reduce);
  }
  const Part broadcast = [](Communicator& all) {
    constexpr std::size_t kCount = 1'500;  // through a slot: nobody reads in the buffer of the root
    std::vector<std::int32_t> data(kCount, all.rank());
    all.broadcast(data.data(), data.data(), kCount, DataType::kInt32, 1);
    EXPECT_EQ(data, std::vector<std::int32_t>(kCount, 1));
  };
  expect_rank_0_done(GetParam(), broadcast, broadcast);
}

TEST_P(LastWords, OfARankThatGivesUpRightBehindAMessageArrive) {
  const std::vector<std::int32_t> sent(8'000, 7);
  const std::size_t bytes = sent.size() * sizeof(sent.front());
  for (const bool polls : {false, true}) {
    expect_rank_0_done(
        GetParam(),
        [&](Communicator& all) {
          std::vector<std::int32_t> received(sent.size());
          const Work work = all.start_receive(received.data(), bytes, 1);
          if (polls) {
            wait_until([&] { return all.test(work); }, "for the message");
          } else {
            all.wait(work);
          }
          EXPECT_EQ(received, sent);
        },
        [&](Communicator& all) { all.send(sent.data(), bytes, 0); });
  }
}

// What it did not do fails the others, with its own words.
TEST_P(LastWords, OfARankThatGivesUpBeforeItsPartAreTheOthersError) {
  const auto outcomes = run_ranks(
      "AA",
      [&](Communicator& all) {
        all.barrier();
        if (all.rank() == 1) fail(Cause::kSystem, "rank 1 breaks");
        all.barrier();
      },
      [&](Options& options) { put_on_host(options, GetParam()); });
  EXPECT_TRUE(outcomes[0].threw);
  EXPECT_EQ(outcomes[0].cause, Cause::kRemote);
  for (const std::string_view words : {"rank 1 on host ", " gave up first: rank 1 failed outside of Tombolo"})
    EXPECT_NE(outcomes[0].text.find(words), std::string::npos) << outcomes[0].text;
}

struct Pipe {
  Pipe() {
    if (pipe(ends) != 0) fail(Cause::kSystem, "pipe");
  }
  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }
  int ends[2];
};

/// Gathers to rank 0 what each rank has.
void gather(Communicator& all) {
  const std::int32_t own = all.rank() + 10;
  std::vector<std::int32_t> gathered(static_cast<std::size_t>(all.size()));
  all.gather(&own, gathered.data(), 1, DataType::kInt32, 0);
  if (all.rank() == 0) {
    EXPECT_EQ(gathered, (std::vector<std::int32_t>{10, 11, 12}));
  }
}

TEST(Gather, InHostMemoryNeedsNoProcessThatHasDoneItsPartAndEnded) {
  std::atomic<int> looks{0};
  StoreHooks hooks;
  hooks.before_look = [&](StoreWatch&) { ++looks; };
  const auto options_of = [&](int rank, int port) {
    Options options = options_for("AAA", rank, port);
    put_on_host(options, Way::kHostMemory);
    if (rank == 0) use_hooked_store(options, hooks);
    return options;
  };
  Pipe port_for_child;
  const pid_t child = fork();  // before this process has threads
  ASSERT_GE(child, 0);
  if (child == 0) {
    int port = 0;
    if (read(port_for_child.ends[0], &port, sizeof(port)) != static_cast<ssize_t>(sizeof(port))) _exit(1);
    try {
      gather(*Communicator::create(options_of(2, port)));
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  StoreServer server("127.0.0.1", 0, kTestSecret, Log());
  const int port = server.port();
  ASSERT_EQ(write(port_for_child.ends[1], &port, sizeof(port)), static_cast<ssize_t>(sizeof(port)));
  std::thread second([&] {
    const auto all = Communicator::create(options_of(1, port));
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    const int before = looks;
    wait_until([&] { return looks >= before + 2; }, "for rank 0 to look after the end of rank 2");
    gather(*all);
  });
  try {
    gather(*Communicator::create(options_of(0, port)));
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
  second.join();
}

}  // namespace
}  // namespace tombolo::collectives
