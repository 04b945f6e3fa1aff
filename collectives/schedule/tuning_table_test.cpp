#include "collectives/schedule/tuning_table.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "base/error.h"
#include "base/randomized_test.h"
#include "base/temporary_folder.h"

namespace tombolo::collectives {
namespace {

const JobShape kExampleShape{{{2, 2}, {2, 1}}, false};

TuningRow row_of(Collective collective, std::size_t from, std::size_t to, std::string_view algorithm,
                 std::size_t segment = 0) {
  return {collective, from, to, {find_algorithm(collective, algorithm), segment}, {}};
}

TuningTable example_table() {
  TuningTable made{kExampleShape,
                   {row_of(Collective::kAllReduce, 0, 100, "doubling"),
                    row_of(Collective::kAllReduce, 101, 1000, "ring", 4096),
                    row_of(Collective::kAllReduce, 5000, 6000, "two-level"),
                    row_of(Collective::kBroadcast, 8, 8, "chain", 1)}};
  made.rows[1].measured = {
      {101, made.rows[0].way, 2e-3}, {101, made.rows[1].way, 1e-3}, {900, made.rows[1].way, 5e-3}};
  return made;
}

/// A table of one row, with that in place of its algorithm's and its bytes'.
std::string one_row(std::string_view fields, std::string_view clusters = "[[2,2],[2,1]]") {
  return fmt::format(
      "{{\n\"tombolo_tuning\": 1,\n\"shape\": {{\"clusters\": {}, \"uniform_links\": false}},\n"
      "\"rows\": [{{\n{}\n}}]}}",
      clusters, fields);
}

void refuses_table(const std::string& text, const std::string& words) {
  try {
    TuningTable::decode(text, "t.json");
    ADD_FAILURE() << "was taken: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    EXPECT_TRUE(std::string_view(error.what()).starts_with("t.json:")) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(TuningTable, ComesBackAsItWasWritten) {
  EXPECT_EQ(TuningTable::decode(example_table().encode(), "t.json"), example_table());
  const TemporaryFolder folder;
  std::ofstream(folder.file("t.json")) << example_table().encode();
  EXPECT_EQ(TuningTable::load(folder.file("t.json")), example_table());
}

TEST(TuningTable, OfAnyRowsComesBackAsItWasWritten) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < 200; ++round) {
    TuningTable made{{{{1 + random() % 9}}, random() % 2 == 0}, {}};
    for (const Collective collective : kAllCollectives) {
      if (collective == Collective::kBarrier) continue;
      std::size_t at = random() % 10;
      for (const Algorithm* one : algorithms()) {
        if (one->collective != collective || random() % 3 == 0) continue;
        const std::size_t to = at + random() % 1000;
        made.rows.push_back({collective, at, to, {one, one->in_pieces ? random() % 3 : 0}, {}});
        if (random() % 2 == 0)
          made.rows.back().measured.push_back({at, {}, 1e-6 * static_cast<double>(1 + random() % 1000)});
        at = to + 1 + random() % 2;
      }
    }
    EXPECT_EQ(TuningTable::decode(made.encode(), "t.json"), made) << made.encode();
    for (const TuningRow& one : made.rows) {
      EXPECT_EQ(made.find(one.collective, one.from_bytes), &one);
      EXPECT_EQ(made.find(one.collective, one.to_bytes), &one);
    }
  }
}

TEST(TuningTable, FindsTheRowThatHoldsTheSize) {
  const TuningTable made = example_table();
  const auto found = [&](Collective collective, std::size_t bytes) {
    const TuningRow* at = made.find(collective, bytes);
    return at == nullptr ? -1 : static_cast<int>(at - made.rows.data());
  };
  EXPECT_EQ(found(Collective::kAllReduce, 0), 0);
  EXPECT_EQ(found(Collective::kAllReduce, 100), 0);
  EXPECT_EQ(found(Collective::kAllReduce, 101), 1);
  EXPECT_EQ(found(Collective::kAllReduce, 1001), -1) << "between rows";
  EXPECT_EQ(found(Collective::kAllReduce, 6001), -1) << "above all";
  EXPECT_EQ(found(Collective::kBroadcast, 7), -1) << "below all of its collective";
  EXPECT_EQ(found(Collective::kBroadcast, 8), 3);
  EXPECT_EQ(found(Collective::kReduceScatter, 8), -1) << "none of that collective";
  EXPECT_EQ(found(Collective::kAllToAll, 8), -1);
}

TEST(TuningTable, SortsItsRowsAndTheShapesHosts) {
  TuningTable made = example_table();
  std::swap(made.rows[0], made.rows[3]);
  std::swap(made.shape.clusters[0], made.shape.clusters[1]);
  std::swap(made.shape.clusters[0][0], made.shape.clusters[0][1]);
  EXPECT_EQ(TuningTable::decode(made.encode(), "t.json"), example_table());
}

TEST(TuningTable, RefusesWhatNoJobCanDoAndSaysWhere) {
  const std::string fine = "\"collective\": \"all_reduce\",\n\"from_bytes\": 1,\n\"to_bytes\": 2,\n";
  EXPECT_NO_THROW(TuningTable::decode(one_row(fine + "\"algorithm\": \"ring\""), "t.json"));
  refuses_table(one_row(fine + "\"algorithm\": \"tree\""),
                "t.json:8: rows[0].algorithm: all_reduce has no algorithm \"tree\"");
  refuses_table(one_row(fine + "\"algorithm\": \"host\""), "ranks of one host, and the table's job has 4");
  refuses_table(one_row(fine + "\"algorithm\": \"doubling\", \"segment_bytes\": 4096"), "cuts nothing");
  refuses_table(one_row(fine + "\"algorithm\": \"host\", \"segment_bytes\": 4096", "[[4]]"), "cuts nothing");
  refuses_table(one_row(fine + "\"algorithm\": \"ring\", \"segment_bytes\": 0"), "rows[0].segment_bytes");
  refuses_table(one_row(fine + "\"algorithm\": \"ring\", \"segmet_bytes\": 1"), "segmet_bytes");
  refuses_table(one_row(fine + "\"segment_bytes\": 1"), "algorithm");
  refuses_table(one_row("\"collective\": \"barrier\", \"from_bytes\": 1, \"to_bytes\": 2, \"algorithm\": "
                        "\"dissemination\""),
                "rows[0].collective");
  refuses_table(
      one_row("\"collective\": \"all_reduce\", \"from_bytes\": 3, \"to_bytes\": 2, \"algorithm\": \"ring\""),
      "2 is below from_bytes 3");
  refuses_table(
      one_row("\"collective\": \"all_reduce\", \"from_bytes\": -3, \"to_bytes\": 2, \"algorithm\": \"ring\""),
      "rows[0].from_bytes");
  refuses_table(
      one_row(fine + "\"algorithm\": \"ring\", \"measured\": [{\"bytes\": 1, \"algorithm\": \"ring\", "
                     "\"seconds\": 0}]"),
      "rows[0].measured[0].seconds");
  refuses_table(one_row(fine + "\"algorithm\": \"ring\"", "[]"), "at least one cluster");
  refuses_table(one_row(fine + "\"algorithm\": \"ring\"", "[[2], []]"), "found no host");
  refuses_table(one_row(fine + "\"algorithm\": \"ring\"", "[[0]]"), "shape.clusters[0][0]");
  refuses_table("{\"tombolo_tuning\": 2}", "reads version 1 of the tuning table, found version 2");
  refuses_table("{\"tombolo_tuning\": 1", "t.json:1");
}

TEST(TuningTable, RefusesRowsThatOverlap) {
  TuningTable made = example_table();
  made.rows[2].from_bytes = 1000;
  refuses_table(made.encode(), "another row of all_reduce has 101 to 1000 bytes already");
}

TEST(TuningTable, TellsWhatWasMeasuredNearASize) {
  const TuningTable made = example_table();
  const auto near = measured_near(made.rows[1], 200);
  ASSERT_EQ(near.size(), 2U);
  EXPECT_EQ(near[0].way, made.rows[1].way) << "its own comes first";
  EXPECT_EQ(near[1].seconds, 2e-3);
  ASSERT_EQ(measured_near(made.rows[1], 800).size(), 1U);
  EXPECT_TRUE(measured_near(made.rows[0], 10).empty());
}

TEST(JobShape, LeavesNamesAndOrderAside) {
  const auto shape = [](const std::vector<RankLocation>& locations) {
    return JobShape::of(locations, false);
  };
  const JobShape one = shape({{"a", "A"}, {"b", "B"}, {"b", "B"}, {"c", "B"}});
  EXPECT_EQ(one, (JobShape{{{2, 1}, {1}}, false}));
  EXPECT_EQ(one, shape({{"x", "2"}, {"y", "2"}, {"z", "1"}, {"x", "2"}}));
  EXPECT_EQ(one.ranks(), 4U);
  EXPECT_EQ(one.hosts(), 3U);
  EXPECT_EQ(one.describe(), "4 ranks on 3 hosts in 2 clusters (2, 1; 1 on each host)");
}

TEST(JobShape, SaysWhatDiffersFirst) {
  const JobShape own{{{2, 2}}, false};
  EXPECT_EQ(difference(own, own), "");
  EXPECT_EQ(difference({{{2, 1}}, false}, own), "it is for 3 ranks, and this job has 4");
  EXPECT_EQ(difference({{{4}}, false}, own), "it is for 1 host, and this job has 2");
  EXPECT_EQ(difference({{{2}, {2}}, false}, own), "it is for 2 clusters, and this job has 1");
  EXPECT_EQ(difference({{{3, 1}}, false}, own),
            "it is for hosts of 3, 1 ranks, and this job has hosts of 2, 2 (clusters apart by ;)");
  EXPECT_EQ(difference({{{2, 2}}, true}, own), "it is for TOMBOLO_ROUTING=shared, and this job has per-peer");
}

}  // namespace
}  // namespace tombolo::collectives
