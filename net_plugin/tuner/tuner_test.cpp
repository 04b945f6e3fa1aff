#include "net_plugin/tuner/tuner.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/hash.h"
#include "base/randomized_test.h"
#include "net_plugin/testing/cluster_json.h"

namespace tombolo::net_plugin {
namespace {

using testing_support::ClusterJson;

constexpr float kIgnore = abi::NCCL_ALGO_PROTO_IGNORE;

Tuner tuner_of(const std::string& text, std::size_t ranks, std::size_t nodes, ChoiceSink sink = nullptr,
               TunerMode mode = TunerMode::kAuto) {
  const TunerFile file = TunerFile::parse("c.json", text);
  return {knowledge_of(mode, &file, nodes), ranks, nodes, std::move(sink)};
}

/// A table as NCCL hands one over.
struct Table {
  int algorithms, protocols;
  std::vector<float> costs;

  Table(int rows, int columns, float value)
      : algorithms(rows), protocols(columns), costs(static_cast<std::size_t>(rows * columns), value) {}
  CostTable view() { return {costs.data(), algorithms, protocols}; }
  float& at(int algorithm, int protocol) { return view().at(algorithm, protocol); }
};

/// What NCCL chooses: it goes through the rows and keeps the first least cost that is not the mark for
/// "unavailable".
Choice replay_nccl(Table& table) {
  Choice best;
  float least = std::numeric_limits<float>::max();
  for (int a = 0; a < table.algorithms; ++a) {
    for (int p = 0; p < table.protocols; ++p) {
      if (table.at(a, p) == kIgnore) continue;
      if (table.at(a, p) >= 0.0F && table.at(a, p) < least) {
        least = table.at(a, p);
        best = {a, p};
      }
    }
  }
  return best;
}

Choice tuned(const Tuner& tuner, abi::ncclFunc_t function, std::size_t bytes, Table table = {7, 3, 1.0F}) {
  tuner.tune(function, bytes, 1, table.view());
  return replay_nccl(table);
}

constexpr Choice kTreeLl{abi::NCCL_ALGO_TREE, abi::NCCL_PROTO_LL};
constexpr Choice kTreeSimple{abi::NCCL_ALGO_TREE, abi::NCCL_PROTO_SIMPLE};
constexpr Choice kRingLl{abi::NCCL_ALGO_RING, abi::NCCL_PROTO_LL};
constexpr Choice kRingSimple{abi::NCCL_ALGO_RING, abi::NCCL_PROTO_SIMPLE};

// On two nodes of eight ranks a ring sends 1.9 times the bytes over the slow link, a tree once.
TEST(Tuner, OnTwoNodesTheTreeCrossesOnce) {
  const Tuner tuner = tuner_of(ClusterJson{.hosts = {1, 1}}.text(), 16, 2);
  EXPECT_EQ(tuned(tuner, abi::ncclFuncAllReduce, 64), kTreeLl);
  EXPECT_EQ(tuned(tuner, abi::ncclFuncAllReduce, std::size_t{1} << 30), kTreeSimple);
}

// On eight nodes behind a common uplink a tree crosses it with twice the bytes, a ring with 7/4.
TEST(Tuner, BehindACommonUplinkTheRingIsForLargeMessages) {
  ClusterJson cluster{.hosts = {4, 4}};
  std::string ends[2];
  for (int side = 0; side < 2; ++side) {
    for (int host = 0; host < 4; ++host)
      ends[side] += fmt::format("{}\"c{}h{}/eth0\"", host > 0 ? ", " : "", side, host);
  }
  cluster.more = fmt::format(
      R"(, "shared_links": [{{"name": "up", "from": [{}], "to": [{}], "bytes_per_second": 1.25e8}}])",
      ends[0], ends[1]);
  const Tuner tuner = tuner_of(cluster.text(), 8, 8);
  EXPECT_EQ(tuned(tuner, abi::ncclFuncAllReduce, 64), kTreeLl);
  EXPECT_EQ(tuned(tuner, abi::ncclFuncAllReduce, std::size_t{1} << 30), kRingSimple);
}

TEST(Tuner, ACollectiveWithoutTreesTakesTheRing) {
  const Tuner tuner = tuner_of(ClusterJson{.hosts = {2, 2}}.text(), 4, 4);
  for (const auto function :
       {abi::ncclFuncBroadcast, abi::ncclFuncReduce, abi::ncclFuncAllGather, abi::ncclFuncReduceScatter}) {
    Table table(7, 3, 1.0F);
    for (int protocol = 0; protocol < 3; ++protocol) table.at(abi::NCCL_ALGO_TREE, protocol) = kIgnore;
    EXPECT_EQ(tuned(tuner, function, 64, table), kRingLl);
    EXPECT_EQ(tuned(tuner, function, std::size_t{1} << 30, table), kRingSimple);
  }
}

TEST(Tuner, WithoutKnowledgeTheTableIsUntouched) {
  const std::string spans = ClusterJson{.hosts = {2, 2}}.text();
  const Tuner off = tuner_of(spans, 4, 4, nullptr, TunerMode::kOff);
  const Tuner small = tuner_of(spans, 2, 2), alone = tuner_of(ClusterJson{.hosts = {4}}.text(), 4, 4);
  const Tuner without(knowledge_of(TunerMode::kAuto, nullptr, 4), 4, 4, nullptr);
  for (const Tuner* tuner : {&off, &small, &alone, &without}) {
    EXPECT_FALSE(tuner->active());
    Table table(7, 3, 12.5F);
    tuner->tune(abi::ncclFuncAllReduce, 1 << 20, 1, table.view());
    EXPECT_EQ(table.costs, Table(7, 3, 12.5F).costs);
    EXPECT_EQ(tuner->choose(abi::ncclFuncAllReduce, 1 << 20, 1), Choice{});
    EXPECT_EQ(tuner->chunk_size(2, 1234), 1234U);
  }
}

TEST(Tuner, AFunctionThatItDoesNotKnowIsLeftAlone) {
  const Tuner tuner = tuner_of(ClusterJson{.hosts = {2, 2}}.text(), 4, 4);
  for (const int function : {-1, 5, 8, 14}) {
    Table table(7, 3, 12.5F);
    tuner.tune(static_cast<abi::ncclFunc_t>(function), 1 << 20, 1, table.view());
    EXPECT_EQ(table.costs, Table(7, 3, 12.5F).costs);
    EXPECT_EQ(tuner.choose(static_cast<abi::ncclFunc_t>(function), 1 << 20, 1), Choice{});
  }
}

TEST(Tuner, WhereNeitherRingNorTreeIsAvailableTheTableIsUntouched) {
  const Tuner tuner = tuner_of(ClusterJson{.hosts = {2, 2}}.text(), 4, 4);
  Table table(7, 3, kIgnore);
  table.at(5, abi::NCCL_PROTO_SIMPLE) = 3.5F;  // as with NCCL_ALGO=nvlstree
  const std::vector<float> before = table.costs;
  tuner.tune(abi::ncclFuncAllReduce, 1 << 20, 1, table.view());
  EXPECT_EQ(table.costs, before);
}

TEST(Tuner, V2ChoosesWithoutATable) {
  const Tuner tuner = tuner_of(ClusterJson{.hosts = {1, 1}}.text(), 16, 2);
  EXPECT_EQ(tuner.choose(abi::ncclFuncAllReduce, 64, 1), kTreeLl);
  EXPECT_EQ(tuner.choose(abi::ncclFuncAllReduce, std::size_t{1} << 30, 1), kTreeSimple);
  EXPECT_EQ(tuner.choose(abi::ncclFuncAllGather, std::size_t{1} << 30, 1), kRingSimple);
}

TEST(Tuner, EveryShapeOfTableKeepsWhatIsUnavailable) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(600); ++round) {
    const int nodes = 2 + static_cast<int>(random() % 7);
    const int first = 1 + static_cast<int>(random() % static_cast<unsigned>(nodes - 1));
    ClusterJson cluster{.hosts = {first, nodes - first}};
    cluster.between_rate = std::exp2(static_cast<double>(random() % 40));
    const Tuner tuner = tuner_of(cluster.text(), static_cast<std::size_t>(nodes) * (1 + random() % 8),
                                 static_cast<std::size_t>(nodes));
    Table table(static_cast<int>(random() % 9), 1 + static_cast<int>(random() % 4), 0);
    for (float& cost : table.costs) cost = random() % 3 == 0 ? kIgnore : static_cast<float>(random() % 1000);
    Table before = table;
    const auto function = static_cast<abi::ncclFunc_t>(random() % 5);
    tuner.tune(function, std::size_t{1} << (random() % 63), static_cast<int>(random() % 20), table.view());
    for (std::size_t i = 0; i < table.costs.size(); ++i) {
      if (before.costs[i] == kIgnore) {
        EXPECT_EQ(table.costs[i], kIgnore);
      }
      EXPECT_TRUE(table.costs[i] == kIgnore || table.costs[i] >= 0) << table.costs[i];
    }
    EXPECT_EQ(replay_nccl(table) == Choice{}, replay_nccl(before) == Choice{})
        << "NCCL fails where a table offers nothing";
    EXPECT_EQ(cheapest(table.view()), replay_nccl(table));
  }
}

TEST(Tuner, AnAbsurdlySlowLinkLeavesNcclAChoice) {
  ClusterJson cluster{.hosts = {1, 1}};
  cluster.between_rate = 1e-300;
  const Tuner tuner = tuner_of(cluster.text(), 2, 2);
  EXPECT_NE(tuned(tuner, abi::ncclFuncAllReduce, std::numeric_limits<std::size_t>::max()), Choice{});
}

/// A digest of the answers to many random questions about random files. What NCCL calculated itself differs
/// from call to call here, which must not matter.
std::uint64_t digest(unsigned seed, unsigned noise_seed, ChoiceSink sink) {
  std::mt19937 random(seed), noise(noise_seed);
  std::string answers;
  for (int round = 0; round < test_rounds(120); ++round) {
    ClusterJson cluster;
    for (unsigned i = 0; i < 2 + random() % 3; ++i)
      cluster.hosts.push_back(1 + static_cast<int>(random() % 5));
    cluster.between_rate = std::exp2(static_cast<double>(10 + random() % 25));
    cluster.between_latency = 1e-6 * static_cast<double>(1 + random() % 50000);
    std::size_t nodes = 0;
    for (const int count : cluster.hosts) nodes += static_cast<std::size_t>(count);
    const Tuner tuner =
        tuner_of(cluster.text(), nodes * (1 + random() % 8), nodes, sink, TunerMode::kSpanning);
    for (int call = 0; call < 20; ++call) {
      Table table(5 + static_cast<int>(random() % 3), 3, 0);
      for (float& cost : table.costs)
        cost = random() % 4 == 0 ? kIgnore : static_cast<float>(noise() % 100000);
      const bool usable = std::any_of(table.costs.begin(), table.costs.begin() + 6,
                                      [](float cost) { return cost != kIgnore; });
      const auto function = static_cast<abi::ncclFunc_t>(random() % 5);
      const std::size_t bytes = random() % (1U << (random() % 31));
      const int operations = 1 + static_cast<int>(random() % 4),
                channels = 1 + static_cast<int>(random() % 32);
      tuner.tune(function, bytes, operations, table.view());
      const Choice choice = tuner.choose(function, bytes, operations);
      if (usable && function == abi::ncclFuncAllReduce)
        answers.append(reinterpret_cast<const char*>(table.costs.data()), table.costs.size() * sizeof(float));
      answers += fmt::format("{}/{}/{}/{};", choice.algorithm, choice.protocol,
                             tuner.chunk_size(channels, 65536), tuner.channels(function, bytes));
    }
  }
  return fnv1a<std::uint64_t>(answers);
}

TEST(Tuner, AnswersDependOnTheFileAndTheArgumentsAlone) {
  const unsigned seed = test_seed();
  const std::uint64_t expected = digest(seed, 1, nullptr);
  EXPECT_EQ(digest(seed, 2, nullptr), expected) << "NCCL's own costs matter";
  int lines = 0;
  const auto sink =
      std::make_shared<const Log>(LogLevel::kInfo, [&](LogLevel, std::string_view) { ++lines; });
  EXPECT_EQ(digest(seed, 1, sink), expected) << "writing choices down matters";
  EXPECT_GT(lines, 0);

  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::uint64_t own = digest(seed, 3, nullptr);
    ::_exit(::write(ends[1], &own, sizeof own) == sizeof own ? 0 : 1);
  }
  std::uint64_t others = 0;
  EXPECT_EQ(::read(ends[0], &others, sizeof others), static_cast<ssize_t>(sizeof others));
  EXPECT_EQ(others, expected) << "the process matters";
  ::close(ends[0]);
  ::close(ends[1]);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(Tuner, ALargeChunkStaysAndASmallOneGrows) {
  ClusterJson cluster{.hosts = {1, 1}};
  cluster.between_rate = 1e8;  // 2e6 bytes in a round trip of 20 ms
  const Tuner tuner = tuner_of(cluster.text(), 2, 2);
  EXPECT_EQ(tuner.chunk_size(1, 4096), 262144U);
  EXPECT_EQ(tuner.chunk_size(1, std::size_t{1} << 21), std::size_t{1} << 21);
}

TEST(Tuner, TakesAsManyChannelsAsFillTheLinkAndNoMoreThanTheMessageFeeds) {
  ClusterJson cluster{.hosts = {1, 1}};
  cluster.between_rate = 1.25e9;  // 25e6 bytes in a round trip of 20 ms
  std::vector<std::string> lines;
  const auto sink = std::make_shared<const Log>(
      LogLevel::kInfo, [&](LogLevel, std::string_view text) { lines.emplace_back(text); });
  const Tuner tuner = tuner_of(cluster.text(), 16, 2, sink);
  for (const auto function : {abi::ncclFuncAllReduce, abi::ncclFuncReduceScatter, abi::ncclFuncReduce}) {
    EXPECT_EQ(tuner.channels(function, std::size_t{1} << 30), 6);
    EXPECT_EQ(tuner.channels(function, 100'000), 3);
    EXPECT_EQ(tuner.channels(function, 8), 1);
  }
  ASSERT_EQ(lines.size(), 3U) << "each number once";
  EXPECT_NE(
      lines[0].find("16 ranks on 2 nodes, 6 channels of the 6 that fill the link between clusters: 6 for "
                    "what it carries in a round trip, 2 for its rate, 1 for a host's NICs"),
      std::string::npos)
      << lines[0];
  // NCCL takes the answer unbounded there.
  EXPECT_EQ(tuner.channels(abi::ncclFuncAllGather, std::size_t{1} << 30), 0);
  EXPECT_EQ(tuner.channels(abi::ncclFuncBroadcast, std::size_t{1} << 30), 0);
  EXPECT_EQ(tuner.channels(static_cast<abi::ncclFunc_t>(9), std::size_t{1} << 30), 0);
  EXPECT_EQ(
      tuner_of(cluster.text(), 16, 2, nullptr, TunerMode::kOff).channels(abi::ncclFuncAllReduce, 1 << 20), 0);
}

TEST(Tuner, EachDistinctChoiceIsWrittenOnceWithItsCosts) {
  std::vector<std::string> lines;
  const auto sink = std::make_shared<const Log>(
      LogLevel::kInfo, [&](LogLevel, std::string_view text) { lines.emplace_back(text); });
  const Tuner tuner = tuner_of(ClusterJson{.hosts = {1, 1}}.text(), 16, 2, sink);
  for (int i = 0; i < 3; ++i) {
    tuned(tuner, abi::ncclFuncAllReduce, 1 << 20);
    tuned(tuner, abi::ncclFuncAllReduce, (1 << 20) + 4096);
  }
  ASSERT_EQ(lines.size(), 1U) << "both are of one class of sizes";
  EXPECT_NE(lines[0].find("16 ranks on 2 nodes, all-reduce of 1 MiB: tree/Simple of tree/LL"),
            std::string::npos)
      << lines[0];
  EXPECT_NE(lines[0].find("ring/Simple"), std::string::npos) << lines[0];
  tuned(tuner, abi::ncclFuncAllReduce, 1 << 22);
  tuned(tuner, abi::ncclFuncAllGather, 1 << 22);
  EXPECT_EQ(lines.size(), 3U);
}

TEST(Tuner, EachDistinctChunkIsWrittenOnce) {
  std::vector<std::string> lines;
  const auto sink = std::make_shared<const Log>(
      LogLevel::kInfo, [&](LogLevel, std::string_view text) { lines.emplace_back(text); });
  ClusterJson cluster{.hosts = {1, 1}};
  cluster.between_rate = 1e8;
  const Tuner tuner = tuner_of(cluster.text(), 16, 2, sink);
  for (int i = 0; i < 3; ++i) {
    tuner.chunk_size(1, 4096);
    tuner.chunk_size(1, 5000);
  }
  ASSERT_EQ(lines.size(), 1U) << "both are of one class of sizes";
  EXPECT_NE(lines[0].find("16 ranks on 2 nodes, chunks of 1 channel: 256 KiB of NCCL's 4 KiB and the 256 KiB "
                          "that fill the link"),
            std::string::npos)
      << lines[0];
  tuner.chunk_size(1, std::size_t{1} << 21);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_NE(lines[1].find("2 MiB of NCCL's 2 MiB"), std::string::npos) << lines[1] << ": that stays";
  tuner.chunk_size(2, 4096);
  EXPECT_EQ(lines.size(), 3U);
}

}  // namespace
}  // namespace tombolo::net_plugin
