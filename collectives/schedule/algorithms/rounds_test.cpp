#include "collectives/schedule/algorithms/rounds.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace tombolo::collectives {
namespace {

/// Whose terms each of the blocks, that a rank counts from its own one on, has in a reduce-scatter of n
/// ranks. By symmetry one rank's view is that of all: what comes from the rank before it are that one's
/// terms.
std::vector<std::multiset<std::size_t>> terms_after_all_rounds(std::size_t n) {
  // By block, counted from the own one: the distances, backwards, of the ranks whose terms are in it.
  std::vector<std::multiset<std::size_t>> terms(n, {0});
  for (const CircleRound round : circle_rounds(n)) {
    const auto before = terms;
    for (std::size_t block = 0; block < round.blocks(); ++block)
      for (const std::size_t distance : before[block + round.skip])
        terms[block].insert((distance + round.skip) % n);
    terms.resize(round.skip);
  }
  return terms;
}

TEST(CircleRounds, SumUpEachTermOnceInTheFewestRoundsAndBlocks) {
  for (std::size_t n = 1; n <= 300; ++n) {
    const auto terms = terms_after_all_rounds(n);
    ASSERT_EQ(terms.size(), 1U) << n;
    std::multiset<std::size_t> each;
    for (std::size_t one = 0; one < n; ++one) each.insert(one);
    ASSERT_EQ(terms[0], each) << n;
    std::size_t blocks = 0;
    for (const CircleRound round : circle_rounds(n)) {
      ASSERT_LE(round.blocks(), round.skip) << n;
      blocks += round.blocks();
    }
    ASSERT_EQ(blocks, n - 1);
    ASSERT_EQ(circle_rounds(n).size(), static_cast<std::size_t>(std::bit_width(n - 1))) << n;
  }
}

TEST(CircleRounds, AreTakenAmongManyAlone) {
  EXPECT_EQ(messages_among(1), 0U);
  EXPECT_EQ(messages_among(2), 1U);
  EXPECT_EQ(messages_among(8), 7U);
  EXPECT_EQ(messages_among(9), 4U);
  EXPECT_EQ(messages_among(256), 8U);
  EXPECT_EQ(rounds_among(1), 0U);
  EXPECT_EQ(rounds_among(8), 1U);
  EXPECT_EQ(rounds_among(33), 6U);
}

}  // namespace
}  // namespace tombolo::collectives
