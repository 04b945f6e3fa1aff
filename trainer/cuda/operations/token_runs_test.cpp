#include "trainer/cuda/operations/token_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/randomized_test.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer::cuda {
namespace {

TEST(TokenRuns, EqualTokensStandTogetherInTheirOrder) {
  TokenRuns runs(8);
  const std::vector<std::int32_t> tokens{5, 2, 5, 0, 2, 5};
  std::vector<std::int32_t> order(6), borders(7);
  runs.sort(tokens, order, borders);
  EXPECT_EQ(order, (std::vector<std::int32_t>{3, 1, 4, 0, 2, 5}));
  EXPECT_EQ(borders, (std::vector<std::int32_t>{0, 1, 3, 6, 6, 6, 6}));
}

TEST(TokenRuns, SortsAsAStableSortDoes) {
  std::mt19937 random(test_seed());
  TokenRuns runs(20);
  for (int round = 0; round < test_rounds(200); ++round) {
    std::vector<std::int32_t> tokens(1 + random() % 60);
    for (auto& token : tokens) token = static_cast<std::int32_t>(random() % 20);
    std::vector<std::int32_t> order(tokens.size()), borders(tokens.size() + 1), expected(tokens.size());
    runs.sort(tokens, order, borders);
    for (std::size_t place = 0; place < tokens.size(); ++place)
      expected[place] = static_cast<std::int32_t>(place);
    std::stable_sort(expected.begin(), expected.end(), [&](std::int32_t one, std::int32_t other) {
      return tokens[static_cast<std::size_t>(one)] < tokens[static_cast<std::size_t>(other)];
    });
    ASSERT_EQ(order, expected);
    EXPECT_EQ(borders.front(), 0);
    EXPECT_EQ(borders.back(), static_cast<std::int32_t>(tokens.size()));
    ASSERT_TRUE(std::is_sorted(borders.begin(), borders.end()));
  }
}

TEST(TokenRuns, ATokenOutsideTheVocabularyIsRefused) {
  const TokenRuns runs(8);
  test::expect_refusal(
      [&] {
        runs.check(std::vector<std::int32_t>{0, 8}, "token");
      },
      {"token 8 at place 1", "vocabulary of 8"});
  test::expect_refusal([&] { runs.check(std::vector<std::int32_t>{-1}, "target"); }, {"target -1"});
}

}  // namespace
}  // namespace tombolo::trainer::cuda
