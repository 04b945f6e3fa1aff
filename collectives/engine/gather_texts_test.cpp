#include "collectives/engine/gather_texts.h"

#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using namespace test;

std::string text_of(int rank) {
  return std::string(static_cast<std::size_t>(rank) * 1000, static_cast<char>('a' + rank));
}

TEST(GatherTexts, GivesEveryRankAllOfThem) {
  for (const char* clusters : {"A", "AB", "AABB"}) {
    expect_fine(run_ranks(clusters, [](Communicator& all) {
      const auto texts = gather_texts(all, text_of(all.rank()));
      ASSERT_EQ(static_cast<int>(texts.size()), all.size());
      for (int rank = 0; rank < all.size(); ++rank)
        EXPECT_EQ(texts[static_cast<std::size_t>(rank)], text_of(rank));
    }));
  }
}

TEST(GatherTexts, GivesRankZeroTextsOfAnyLength) {
  const std::string longest((1U << 20) + 1, 'z');
  for (const char* clusters : {"A", "ABB"}) {
    expect_fine(run_ranks(clusters, [&](Communicator& all) {
      const auto texts =
          gather_texts(all, all.rank() == 1 ? longest : text_of(all.rank()), GatherTo::kRankZero);
      if (all.rank() != 0) {
        EXPECT_TRUE(texts.empty());
        return;
      }
      ASSERT_EQ(static_cast<int>(texts.size()), all.size());
      for (int rank = 0; rank < all.size(); ++rank)
        EXPECT_EQ(texts[static_cast<std::size_t>(rank)], rank == 1 ? longest : text_of(rank));
    }));
  }
}

TEST(GatherTexts, RefusesWhatEveryRankWouldHaveToHold) {
  run_ranks("A", [](Communicator& all) {
    EXPECT_THROW(gather_texts(all, std::string((1U << 20) + 1, 'x')), Error);
  });
}

}  // namespace
}  // namespace tombolo::collectives
