#include "base/text_distance.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/randomized_test.h"

namespace tombolo {
namespace {

TEST(TextDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(text_distance("", ""), 0U);
  EXPECT_EQ(text_distance("", "abc"), 3U);
  EXPECT_EQ(text_distance("roce", "roce"), 0U);
  EXPECT_EQ(text_distance("roce", "rocce"), 1U);
  EXPECT_EQ(text_distance("roce", "roe"), 1U);
  EXPECT_EQ(text_distance("roce", "race"), 1U);
  EXPECT_EQ(text_distance("roce", "rcoe"), 1U) << "neighbours swapped";
  EXPECT_EQ(text_distance("kitten", "sitting"), 3U);
}

TEST(TextDistance, IsSymmetricAndAtMostTheNumberOfEdits) {
  std::mt19937 random(test_seed());
  const auto letter = [&] { return static_cast<char>('a' + random() % 3); };
  for (int round = 0; round < test_rounds(500); ++round) {
    std::string from;
    while (random() % 8 != 0) from += letter();
    std::string to = from;
    const std::size_t edits = random() % 4;
    for (std::size_t edit = 0; edit < edits; ++edit) {
      const std::size_t at = random() % (to.size() + 1);
      if (random() % 2 == 0 || at == to.size()) {
        to.insert(to.begin() + static_cast<std::ptrdiff_t>(at), letter());
      } else {
        to.erase(at, 1);
      }
    }
    EXPECT_LE(text_distance(from, to), edits) << from << " and " << to;
    EXPECT_EQ(text_distance(from, to), text_distance(to, from)) << from << " and " << to;
  }
}

TEST(NearestName, IsTheClosestOneThatIsNearEnough) {
  const std::vector<std::string_view> known{"", "infiniband", "roce", "iwarp", "tcp"};
  EXPECT_EQ(nearest_name("infinband", known), "infiniband");
  EXPECT_EQ(nearest_name("roec", known), "roce");
  EXPECT_EQ(nearest_name("udp", known), std::nullopt);
  EXPECT_EQ(nearest_name("", known), std::nullopt);
  EXPECT_EQ(nearest_name(std::string(1000, 'x'), std::vector<std::string_view>{std::string_view("x")}),
            std::nullopt);
}

}  // namespace
}  // namespace tombolo
