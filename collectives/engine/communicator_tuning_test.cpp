// Communicators that choose by a tuning table: TOMBOLO_TUNING's, or one that was set.
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "base/temporary_folder.h"
#include "collectives/rendezvous/store_limits.h"
#include "collectives/schedule/tuning_table.h"
#include "collectives/testing/hooked_store.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using namespace test;

TuningRow tuned_row(Collective collective, std::size_t from, std::size_t to, std::string_view algorithm,
                    std::size_t segment = 0) {
  return {collective, from, to, {find_algorithm(collective, algorithm), segment}, {}};
}

/// What the rules do not do: a ring for large vectors between clusters, in small pieces, and a chain for few
/// bytes.
TuningTable unusual_table(const JobShape& shape) {
  TuningTable table{shape,
                    {tuned_row(Collective::kAllReduce, 100'000, 500'000, "ring", 4096),
                     tuned_row(Collective::kBroadcast, 0, 100, "chain", 8)}};
  table.rows[0].measured = {{400'000, table.rows[0].way, 1e-3},
                            {400'000, {find_algorithm(Collective::kAllReduce, "two-level"), 0}, 2e-3}};
  return table;
}

/// An all-reduce of so many floats that is right; the way that it took.
std::string right_sum(Communicator& all, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 100);
  std::vector<float> expected = values;
  for (float& value : expected) value *= static_cast<float>(all.size());
  all.all_reduce(values.data(), values.data(), count, DataType::kFloat32, ReduceOp::kSum);
  EXPECT_EQ(values, expected);
  return all.last_algorithm();
}

std::string right_broadcast(Communicator& all, std::size_t count) {
  std::vector<char> values(count, all.rank() == 1 ? 'x' : '-');
  all.broadcast(values.data(), values.data(), count, DataType::kInt8, 1);
  EXPECT_EQ(values, std::vector<char>(count, 'x'));
  return all.last_algorithm();
}

class TunedCommunicator : public testing::Test {
 protected:
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  /// Rank 0 alone reads the file, and its warnings are kept.
  Change tuned() {
    return [this](Options& options) {
      options.tuning_file = options.identity.rank == 0 ? path_ : "not-read-here.json";
      options.log = Log(LogLevel::kWarning, [this](LogLevel, std::string_view text) {
        const std::lock_guard lock(mutex_);
        warnings_.emplace_back(text);
      });
    };
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.file("tuning.json");
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

// The store's limit on keys is reckoned by it.
TEST_F(TunedCommunicator, ARankPutsAsManyKeysIntoTheStoreAsItsLimitAllowsFor) {
  write(unusual_table({{{1, 1}, {1, 1}}, false}).encode());
  constexpr std::size_t kRanks = 4;
  std::mutex mutex;
  std::array<std::set<std::string, std::less<>>, kRanks> keys;
  std::array<StoreHooks, kRanks> hooks;
  expect_fine(run_ranks(
      "AABB", [](Communicator& all) { EXPECT_EQ(all.size(), static_cast<int>(kRanks)); },
      [&](Options& options) {
        tuned()(options);
        options.routing = Routing::kShared;
        const auto rank = static_cast<std::size_t>(options.identity.rank);
        hooks[rank].before_put = [&, rank](std::string_view key) {
          const std::lock_guard lock(mutex);
          keys[rank].emplace(key);
        };
        options.store = std::make_shared<HookedStore>(
            store_at("127.0.0.1", options.identity.port, kTestSecret), hooks[rank]);
      }));
  EXPECT_LE(keys[0].size(), kMostKeysPerRank);  // it does not say what it has read, and gives the table
  for (std::size_t rank = 1; rank < kRanks; ++rank)
    EXPECT_EQ(keys[rank].size(), kMostKeysPerRank) << fmt::format("{}", fmt::join(keys[rank], " "));
}

TEST_F(TunedCommunicator, ATableChangesTheAlgorithmOnAllRanks) {
  write(unusual_table({{{1, 1}, {1, 1}}, false}).encode());
  expect_fine(run_ranks(
      "AABB",
      [](Communicator& all) {
        EXPECT_EQ(right_sum(all, 100'000), "ring");
        const Json call = Json::parse(all.explain()).at("last_call");
        EXPECT_EQ(call.at("reason"), "tuning-table");
        EXPECT_EQ(call.at("segment_bytes"), 4096);
        EXPECT_EQ(call.at("expected").at(0).at("seconds"), 1e-3);
        EXPECT_EQ(call.at("expected").at(1).at("algorithm"), "two-level");
        EXPECT_EQ(right_sum(all, 200'000), "two-level") << "beyond the row";
        EXPECT_EQ(right_sum(all, 100), "doubling") << "before the row";
        EXPECT_EQ(right_broadcast(all, 100), "chain");
        EXPECT_EQ(right_broadcast(all, 101), "tree");
      },
      tuned()));
  EXPECT_EQ(warnings_, std::vector<std::string>());
}

TEST_F(TunedCommunicator, ATableOfAnotherShapeIsLeftAloneWithOneWarning) {
  write(unusual_table({{{2, 2}, {2, 2}}, false}).encode());
  expect_fine(run_ranks(
      "AABB", [](Communicator& all) { EXPECT_EQ(right_sum(all, 100'000), "two-level"); }, tuned()));
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("is not used: it is for 8 ranks, and this job has 4"), std::string::npos)
      << warnings_[0];
  EXPECT_NE(warnings_[0].find(path_), std::string::npos) << warnings_[0];
}

TEST_F(TunedCommunicator, ADamagedFileFailsOnEveryRankWithItsPlace) {
  std::string text = unusual_table({{{1, 1}, {1, 1}}, false}).encode();
  const auto at = text.find("\"ring\"");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 6, "\"rung\"");
  write(text);
  for (const Outcome& one : run_ranks(
           "AABB", [](Communicator&) {}, tuned())) {
    EXPECT_TRUE(one.threw);
    EXPECT_EQ(one.cause, Cause::kInvalidUsage) << one.text;
    EXPECT_NE(one.text.find(path_ + ":"), std::string::npos) << one.text;
    EXPECT_NE(one.text.find("rows[0].algorithm: all_reduce has no algorithm \"rung\""), std::string::npos)
        << one.text;
  }
}

TEST_F(TunedCommunicator, AFileThatIsNotThereFailsOnEveryRank) {
  for (const Outcome& one : run_ranks(
           "AB", [](Communicator&) {}, tuned())) {
    EXPECT_TRUE(one.threw);
    EXPECT_NE(one.text.find(path_), std::string::npos) << one.text;
  }
}

TEST_F(TunedCommunicator, AnAlgorithmThatIsNamedWins) {
  write(unusual_table({{{1, 1}, {1, 1}}, false}).encode());
  expect_fine(run_ranks(
      "AABB",
      [](Communicator& all) {
        EXPECT_EQ(right_sum(all, 100'000), "two-level");
        EXPECT_EQ(right_broadcast(all, 100), "chain") << "broadcasts have no algorithm of that name";
      },
      [change = tuned()](Options& options) {
        change(options);
        options.algorithm = "two-level";
      }));
}

TEST_F(TunedCommunicator, OnOrOffMustBeTheSameOnEveryRank) {
  write(unusual_table({{{1}, {1}}, false}).encode());
  const auto outcomes = run_ranks(
      "AB", [](Communicator&) {},
      [change = tuned()](Options& options) {
        if (options.identity.rank == 0) change(options);
      });
  for (const Outcome& one : outcomes) {
    EXPECT_EQ(one.cause, Cause::kInvalidUsage);
    EXPECT_NE(one.text.find("another TOMBOLO_TUNING"), std::string::npos) << one.text;
  }
}

TEST_F(TunedCommunicator, PartsOfACommunicatorHaveTheTableWhereTheirShapeIsItsOwn) {
  write(unusual_table({{{1}, {1}}, false}).encode());
  expect_fine(run_ranks(
      "AABB",
      [](Communicator& all) {
        EXPECT_EQ(right_sum(all, 100'000), "two-level");
        // Rank 0 of the second part is no rank that reads the file.
        const auto part = all.split(all.rank() % 2, 0);
        EXPECT_EQ(right_sum(*part, 100'000), "ring");
      },
      tuned()));
  EXPECT_EQ(warnings_.size(), 1U) << "of the whole, and none of its parts";
}

TEST_F(TunedCommunicator, MayTakeTheHostsMemoryOrNot) {
  TuningTable table{{{{3}}, false},
                    {tuned_row(Collective::kAllReduce, 0, 4000, "ring"),
                     tuned_row(Collective::kAllReduce, 4001, 8000, "host"),
                     tuned_row(Collective::kAllReduce, 8001, 1 << 30, "host")}};
  write(table.encode());
  expect_fine(run_ranks(
      "AAA",
      [](Communicator& all) {
        EXPECT_EQ(right_sum(all, 1000), "ring");
        EXPECT_EQ(right_sum(all, 1500), "host");
        EXPECT_EQ(right_sum(all, 1000), "ring");
        EXPECT_EQ(right_sum(all, 2'000'000), "ring") << "TOMBOLO_HOST_LIMIT is a limit";
      },
      [change = tuned()](Options& options) {
        change(options);
        options.router.host.name = "host0";
        options.host_limit = std::size_t{4} << 20;
      }));
}

TEST_F(TunedCommunicator, CompressedCallsAreLeftToTheRules) {
  write(unusual_table({{{1, 1}, {1, 1}}, false}).encode());
  expect_fine(run_ranks(
      "AABB", [](Communicator& all) { EXPECT_EQ(right_sum(all, 100'000), "two-level"); },
      [change = tuned()](Options& options) {
        change(options);
        options.compression = Compression::kBfloat16;
      }));
}

TEST_F(TunedCommunicator, ATableThatIsSetIsRankZeros) {
  const std::string text = unusual_table({{{1, 1}, {1, 1}}, false}).encode();
  expect_fine(run_ranks("AABB", [&](Communicator& all) {
    EXPECT_EQ(right_sum(all, 100'000), "two-level");
    all.set_tuning(all.rank() == 0 ? text : "");
    EXPECT_EQ(right_sum(all, 100'000), "ring");
    all.set_tuning(all.rank() == 0 ? "" : text);
    EXPECT_EQ(right_sum(all, 100'000), "two-level");
    for (const std::string& wrong : {std::string("{"), unusual_table({{{4}}, false}).encode()}) {
      try {
        all.set_tuning(wrong);
        ADD_FAILURE() << "was taken";
      } catch (const Error& error) {
        EXPECT_EQ(error.cause(), Cause::kInvalidUsage) << error.what();
      }
      EXPECT_EQ(right_sum(all, 100'000), "two-level") << "it is as it was";
    }
  }));
}

}  // namespace
}  // namespace tombolo::collectives
