#include "probe/bootstrap/rendezvous_group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "probe/testing/group_ranks.h"

namespace tombolo::probe {
namespace {

using Texts = std::vector<std::string>;
using test::run_group;

constexpr Duration kLong = std::chrono::seconds(60);

bool same_secret(const transport::Secret& left, const transport::Secret& right) {
  return std::ranges::equal(left.bytes(), right.bytes());
}

void expect_error_of_group(Cause cause, std::string_view part, const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown, wanted: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), cause) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(RendezvousGroup, GathersEveryRanksTextByRank) {
  const std::string binary("\0\xff\n", 3);
  run_group("AAA", [&](RendezvousGroup& group, const collectives::Options& options) {
    const int rank = options.identity.rank;
    const Texts mine{"zero", "", binary};
    EXPECT_EQ(group.gather("first", mine[static_cast<std::size_t>(rank)], kLong), mine);
    const std::string other = fmt::format("again {}", rank);
    EXPECT_EQ(group.gather("second", other, kLong), (Texts{"again 0", "again 1", "again 2"}));
  });
}

TEST(RendezvousGroup, NamesTheRanksThatSentNothing) {
  run_group("AAAA", [&](RendezvousGroup& group, const collectives::Options& options) {
    const int rank = options.identity.rank;
    if (rank == 0) {
      group.gather("rank 2 is here", "", kLong);
      expect_error_of_group(Cause::kTimeout, "endpoint: nothing came from rank 1, 3 within 50 ms",
                            [&] { group.gather("endpoint", "", std::chrono::milliseconds(50)); });
    } else if (rank == 2) {
      // Its text is there before rank 0 asks for it.
      EXPECT_THROW(group.gather("endpoint", "", std::chrono::milliseconds(1)), Error);
      group.gather("rank 2 is here", "", kLong);
    } else {
      group.gather("rank 2 is here", "", kLong);
    }
  });
}

TEST(RendezvousGroup, AgreesOnRankZerosRandomSecretWhereNoneWasChosen) {
  std::mutex mutex;
  std::vector<transport::Secret> agreed;
  run_group("AAA", [&](RendezvousGroup& group, collectives::Options options) {
    options.make_secret = true;
    const auto secret = group.agree_on_secret(options);
    const std::lock_guard lock(mutex);
    agreed.push_back(secret);
  });
  ASSERT_EQ(agreed.size(), 3U);
  for (const auto& secret : agreed) EXPECT_TRUE(same_secret(secret, agreed.front()));
  EXPECT_FALSE(same_secret(agreed.front(), collectives::test::kTestSecret));
}

TEST(RendezvousGroup, KeepsTheChosenSecretWithoutAskingOtherRanks) {
  run_group("AA", [&](RendezvousGroup& group, const collectives::Options& options) {
    if (options.identity.rank == 0) return;
    EXPECT_TRUE(same_secret(group.agree_on_secret(options), collectives::test::kTestSecret));
  });
}

TEST(RendezvousGroup, RefusesASecretOfAnotherLength) {
  run_group("AA", [&](RendezvousGroup& group, collectives::Options options) {
    options.make_secret = true;
    if (options.identity.rank == 0)
      group.gather("secret", "short", kLong);
    else
      expect_error_of_group(Cause::kRemote, "rank 0 published a secret of 5 bytes, not 16",
                            [&] { group.agree_on_secret(options); });
  });
}

TEST(RendezvousGroup, KeepsTheStoreUntilTheOthersHaveLeft) {
  std::promise<void> leaving;
  run_group("AA", [&](RendezvousGroup& group, const collectives::Options& options) {
    if (options.identity.rank == 0) {
      EXPECT_THROW(group.gather("late", "zero", std::chrono::milliseconds(1)), Error);
      leaving.set_value();
      return;  // its group waits for rank 1
    }
    leaving.get_future().wait();
    EXPECT_EQ(group.gather("late", "one", kLong), (Texts{"zero", "one"}));
  });
}

TEST(RendezvousGroup, LendsItsStoreToACommunicatorOfTheSameRanks) {
  run_group("AA", [&](RendezvousGroup& group, const collectives::Options& options) {
    const auto communicator = collectives::Communicator::create(group.with_store(options));
    EXPECT_EQ(communicator->size(), 2);
    communicator->barrier();
  });
}

}  // namespace
}  // namespace tombolo::probe
