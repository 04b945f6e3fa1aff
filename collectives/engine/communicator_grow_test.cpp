// New ranks join those that are there. Ranks are threads.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "collectives/engine/communicator.h"
#include "collectives/testing/held_clock.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using namespace test;

constexpr std::chrono::seconds kUntilInvited{60};

/// The sum of each rank's number plus one, in a vector that is cut into pieces.
void expect_exact_sums(Communicator& all) {
  const std::int32_t expected = all.size() * (all.size() + 1) / 2;
  for (const std::size_t count : {1UL, 1000UL, 300'000UL}) {
    std::vector<std::int32_t> values(count, all.rank() + 1);
    all.all_reduce(values.data(), values.data(), count, DataType::kInt32, ReduceOp::kSum);
    ASSERT_EQ(values, std::vector<std::int32_t>(count, expected)) << all.last_algorithm();
  }
}

/// How ranks that are to come learn of the id.
class Invitation {
 public:
  UniqueId make(const Communicator& communicator) {
    const UniqueId id = make_unique_id(communicator.secret());
    promise_.set_value(id);
    return id;
  }
  UniqueId wait() const {
    if (coming_.wait_for(kUntilInvited) != std::future_status::ready)
      throw Error(Cause::kTimeout, "no id came");
    return coming_.get();
  }

 private:
  std::promise<UniqueId> promise_;
  std::shared_future<UniqueId> coming_ = promise_.get_future().share();
};

std::unique_ptr<Communicator> grow(Communicator& members, int size, Invitation& invitation) {
  if (members.rank() != members.size() - 1) return members.grow(size, nullptr);
  const UniqueId id = invitation.make(members);
  return members.grow(size, &id);
}

/// A new rank in a thread: joins by the invitation, and makes what the others make.
std::thread new_rank(const Invitation& invitation, int rank, int size, std::string cluster,
                     const std::function<void(Communicator&)>& body, const Change& change = {}) {
  return std::thread([&invitation, rank, size, cluster, body, change] {
    try {
      Options options = options_to_join(invitation.wait(), rank, size);
      options.router.host = options_for("A", 0, 0).router.host;
      options.router.host.name = "new" + std::to_string(rank);
      options.router.host.cluster = cluster;
      options.discover = false;  // as options_for() leaves it
      if (change) change(options);
      body(*Communicator::create(options));
    } catch (const Error& error) {
      ADD_FAILURE() << "new rank " << rank << ": " << error.what();
    }
  });
}

TEST(Grow, GivesANewRankTheNextNumberAfterAShrink) {
  Invitation invitation;
  std::atomic<int> right{0}, summed{0};
  const auto check = [&](Communicator& grown) {
    EXPECT_EQ(grown.size(), 4);
    expect_exact_sums(grown);
    EXPECT_EQ(grown.last_algorithm(), "two-level");
    std::string clusters;
    for (const Member& member : grown.members()) clusters += member.cluster;
    EXPECT_EQ(clusters, "ABBA");
    EXPECT_EQ(grown.members().back().host, "new3");
    for (int peer = 0; peer < 4; ++peer) {
      if (peer == grown.rank()) continue;
      grown.connect_to(peer);
      EXPECT_EQ(grown.route_to(peer)->transport, "tcp");
    }
    grown.barrier();
    grown.finalize();
    ++right;
  };
  auto joining = new_rank(invitation, 3, 4, "A", check);
  const auto outcomes = run_ranks("AABB", [&](Communicator& communicator) {
    expect_exact_sums(communicator);
    ++summed;
    if (communicator.rank() == 1) {
      while (summed < 4) std::this_thread::yield();  // none needs this rank any more
      throw Error(Cause::kInternal, "gives up");
    }
    EXPECT_THROW(
        {
          for (;;) communicator.barrier();
        },
        Error);
    const auto left = communicator.shrink({1});
    expect_exact_sums(*left);
    const auto grown = grow(*left, 4, invitation);
    EXPECT_EQ(grown->rank(), left->rank()) << "members keep their ranks";
    check(*grown);
    expect_exact_sums(*left);
  });
  joining.join();
  EXPECT_EQ(right, 4);
  EXPECT_TRUE(outcomes[1].threw);
  for (const std::size_t rank : {0U, 2U, 3U}) EXPECT_FALSE(outcomes[rank].threw) << outcomes[rank].text;
}

TEST(Grow, TakesSeveralAtOnceAndAgainInMemoryAndByOneKindOfNic) {
  for (const bool shared : {false, true}) {
    const auto change = [&](Options& options) {
      options.router.host.name = "host";
      if (shared) options.routing = Routing::kShared;
    };
    Invitation first, second;
    const auto check = [&](Communicator& five) {
      expect_exact_sums(five);
      const auto six = grow(five, 6, second);
      expect_exact_sums(*six);
      // What it is made of can be split and shrunk as any other.
      expect_exact_sums(*six->split(six->rank() % 2, 0));
      if (six->rank() != 5) expect_exact_sums(*six->shrink({5}));
      six->barrier();
    };
    std::vector<std::thread> joining;
    joining.push_back(new_rank(first, 3, 5, "", check, change));
    joining.push_back(new_rank(first, 4, 5, "", check, change));
    joining.push_back(new_rank(
        second, 5, 6, "",
        [&](Communicator& six) {
          expect_exact_sums(six);
          expect_exact_sums(*six.split(1, 0));
          six.barrier();
        },
        change));
    expect_fine(run_ranks(
        "AAA", [&](Communicator& three) { check(*grow(three, 5, first)); },
        [&](Options& options) {
          options.router.host.cluster.clear();
          change(options);
        }));
    for (auto& thread : joining) thread.join();
  }
}

TEST(Grow, NamesARankThatDoesNotComeAndLeavesTheMembersAsTheyWere) {
  Invitation vain, second;
  std::atomic<int> refused{0};
  HeldClock clock;
  GoesOnceAllHaveCome begin(clock, 2);
  auto joining = new_rank(second, 2, 3, "B", expect_exact_sums);
  expect_fine(run_ranks(
      "AB",
      [&](Communicator& communicator) {
        communicator.barrier();
        begin.comes();
        try {
          const auto grown = grow(communicator, 4, vain);
        } catch (const Error& error) {
          EXPECT_EQ(error.cause(), Cause::kTimeout);
          const std::string text = error.what();
          EXPECT_NE(text.find("grow from 2 ranks"), std::string::npos) << text;
          EXPECT_NE(text.find("ranks 2, 3 of 4 did not arrive within 4 s"), std::string::npos) << text;
          if (++refused == 2) clock.hold();
        }
        expect_exact_sums(communicator);
        expect_exact_sums(*grow(communicator, 3, second));
      },
      [&](Options& options) {
        options.deadline = std::chrono::seconds(4);
        options.router.clock = &clock;
      }));
  joining.join();
  EXPECT_EQ(refused, 2);
}

TEST(Grow, RefusesOnAllMembersWhatIsWrongOnOne) {
  const UniqueId foreign = make_unique_id();
  std::atomic<int> refused{0};
  expect_fine(run_ranks("AAB", [&](Communicator& communicator) {
    const auto refuse = [&](int size, const UniqueId* id, const std::string& words) {
      try {
        const auto grown = communicator.grow(size, id);
        ADD_FAILURE() << words;
      } catch (const Error& error) {
        EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
        EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
        ++refused;
      }
    };
    const UniqueId* id = communicator.rank() == 1 ? &foreign : nullptr;
    refuse(communicator.rank() == 2 ? 5 : 4, id, "the same on every member");
    refuse(3, id, "from 3 ranks to 3");
    refuse(4, nullptr, "no member gives the unique id");
    refuse(4, id, "was not made for this communicator");
    expect_exact_sums(communicator);
  }));
  EXPECT_EQ(refused, 12);
}

TEST(Grow, FromARankAlone) {
  Invitation invitation;
  auto joining = new_rank(invitation, 1, 2, "B", expect_exact_sums);
  expect_fine(run_ranks("A", [&](Communicator& alone) {
    const auto two = grow(alone, 2, invitation);
    EXPECT_EQ(two->rank(), 0);
    expect_exact_sums(*two);
  }));
  joining.join();
}

}  // namespace
}  // namespace tombolo::collectives
