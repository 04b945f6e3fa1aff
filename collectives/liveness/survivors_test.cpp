// Who goes on, agreed on by many ranks, which are threads, in a store alone.
#include "collectives/liveness/survivors.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "base/error.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using test::kTestSecret;

constexpr Duration kSurvivorsPatience = std::chrono::seconds(60);

/// Many ranks, of which each third does not come, and is known to be gone.
class ManyRanks : public testing::Test {
 protected:
  static constexpr int kSize = 90;
  static bool comes(int rank) { return rank % 3 != 1; }

  ManyRanks() : asked_(kSize) {
    for (int rank = 0; rank < kSize; ++rank) (comes(rank) ? left_ : gone_).push_back(rank);
  }
  Survivors::Rules rules_of(int rank) {
    return {[this, rank](int of) {
              asked_[static_cast<std::size_t>(rank)].insert(of);
              return comes(of);
            },
            [](const std::vector<int>&) { return std::string(); }};
  }
  /// Calls `body` on each that comes, with its client.
  void run(const std::function<void(Survivors&, int rank)>& body) {
    std::vector<std::thread> threads;
    for (const int rank : left_) {
      threads.emplace_back([&, rank] {
        const auto store = Store::connect("127.0.0.1", server_.port(), kTestSecret,
                                          Deadline::after(kSurvivorsPatience), Log());
        Survivors survivors(*store, "shrunk/1", rank, kSize, rules_of(rank), Clock::steady(),
                            kSurvivorsPatience);
        body(survivors, rank);
      });
    }
    for (auto& thread : threads) thread.join();
  }
  /// Of how many ranks a rank has asked whether they live.
  std::size_t asked_by(int rank) const { return asked_[static_cast<std::size_t>(rank)].size(); }

  StoreServer server_{"127.0.0.1", 0, kTestSecret, Log()};
  std::vector<int> left_, gone_;
  std::vector<std::set<int>> asked_;  // by rank
};

TEST_F(ManyRanks, AgreeByWhatOneOfThemFinds) {
  std::atomic<int> agreed{0};
  run([&](Survivors& survivors, int) {
    survivors.of_arrival();
    agreed += survivors.agreed() == left_ ? 1 : 0;
    survivors.await_all([] { return false; });
  });
  EXPECT_EQ(agreed, static_cast<int>(left_.size()));
  int asking = 0;
  for (const int rank : left_) asking += asked_by(rank) > 0 ? 1 : 0;
  EXPECT_EQ(asking, 1) << "each would ask for each";
}

TEST_F(ManyRanks, AreLookedAfterByTheFirstWhereTheyComeByAList) {
  run([&](Survivors& survivors, int rank) {
    survivors.without(gone_);
    EXPECT_EQ(survivors.agreed(), left_);
    for (const int other : left_) {
      EXPECT_TRUE(survivors.may_make_its_part(other)) << other << " at " << rank;
    }
    survivors.await_all([] { return false; });
  });
  for (const int rank : left_) EXPECT_LE(asked_by(rank), rank == left_.front() ? left_.size() : 1) << rank;
}

// It has been there, and so nobody needs to ask whether its process lives.
TEST_F(ManyRanks, KnowOfOneThatHasGoneSinceItCame) {
  const int goes = left_.back();
  std::atomic<int> failed{0};
  run([&](Survivors& survivors, int rank) {
    survivors.of_arrival();
    if (rank == goes) return;
    if (rank == left_.front()) {
      try {
        survivors.await_all([] { return false; });
        ADD_FAILURE() << "without rank " << goes;
      } catch (const Error& error) {
        EXPECT_EQ(error.cause(), Cause::kRemote);
        EXPECT_EQ(std::string(error.what()),
                  fmt::format("shrink: rank {} died before all had made their parts", goes));
      }
      ++failed;
      return;
    }
    // As a communicator in the making does, it hears from the first one.
    EXPECT_THROW(survivors.await_all([&] { return failed > 0; }), Error);
  });
  EXPECT_EQ(failed, 1);
}

}  // namespace
}  // namespace tombolo::collectives
