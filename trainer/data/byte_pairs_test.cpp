#include "trainer/data/byte_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/randomized_test.h"

namespace tombolo::trainer {
namespace {

/// The definition: as long as there is one, merge the first of the pairs of lowest rank.
std::vector<std::int32_t> merged_by_definition(const std::vector<Merge>& merges,
                                               std::vector<std::int32_t> tokens) {
  for (;;) {
    const Merge* best = nullptr;
    std::size_t best_at = 0;
    for (std::size_t at = 0; at + 1 < tokens.size(); ++at)
      for (const Merge& merge : merges)
        if (merge.left == tokens[at] && merge.right == tokens[at + 1] && (!best || merge.rank < best->rank)) {
          best = &merge;
          best_at = at;
        }
    if (best == nullptr) return tokens;
    tokens[best_at] = best->result;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

TEST(BytePairs, MergeAsTheDefinitionSays) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(300); ++round) {
    std::vector<Merge> merges;
    std::int32_t tokens = 3;
    for (int rank = 0; rank < 12; ++rank) {
      const auto any = [&] { return static_cast<std::int32_t>(random() % static_cast<unsigned>(tokens)); };
      const Merge merge{any(), any(), tokens, rank};
      if (std::ranges::any_of(
              merges, [&](const Merge& old) { return old.left == merge.left && old.right == merge.right; }))
        continue;
      merges.push_back(merge);
      ++tokens;
    }
    const BytePairs pairs(merges);
    std::vector<std::int32_t> text(random() % 60);
    for (std::int32_t& token : text) token = static_cast<std::int32_t>(random() % 3);
    auto got = text;
    pairs.merge(got);
    EXPECT_EQ(got, merged_by_definition(merges, text));
  }
}

TEST(BytePairs, OfTwoMergesOfAPairTheLowerRankCounts) {
  const BytePairs pairs({{0, 1, 5, 9}, {0, 1, 6, 2}, {0, 1, 7, 4}});
  std::vector<std::int32_t> tokens{0, 1};
  pairs.merge(tokens);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{6}));
}

// A method of quadratic time would take half an hour.
TEST(BytePairs, AMillionTokensInOnePieceAreMergedInTime) {
  std::vector<Merge> merges;
  for (std::int32_t level = 0; level < 20; ++level) merges.push_back({level, level, level + 1, level});
  std::vector<std::int32_t> tokens(1 << 20, 0);
  BytePairs(merges).merge(tokens);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{20}));
}

}  // namespace
}  // namespace tombolo::trainer
