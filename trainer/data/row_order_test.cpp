#include "trainer/data/row_order.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "base/randomized_test.h"

namespace tombolo::trainer {
namespace {

std::vector<std::uint64_t> order_of(std::uint64_t seed, std::uint64_t epoch, std::uint64_t count) {
  std::vector<std::uint64_t> order;
  for (std::uint64_t index = 0; index < count; ++index) order.push_back(permuted(seed, epoch, index, count));
  return order;
}

TEST(RowOrder, IsAPermutationForEveryCount) {
  std::mt19937_64 random(test_seed());
  std::vector<std::uint64_t> counts{1, 2, 3, 4, 5, 15, 16, 17, 255, 256, 257, 1024, 4097};
  for (int round = 0; round < test_rounds(30); ++round) counts.push_back(1 + random() % 3000);
  for (const std::uint64_t count : counts) {
    const auto order = order_of(random(), random() % 5, count);
    const std::set<std::uint64_t> seen(order.begin(), order.end());
    EXPECT_EQ(seen.size(), count);
    EXPECT_EQ(*seen.rbegin(), count - 1);
  }
}

TEST(RowOrder, DependsOnSeedAndEpoch) {
  const auto order = order_of(1, 0, 1000);
  EXPECT_EQ(order_of(1, 0, 1000), order);
  EXPECT_NE(order_of(2, 0, 1000), order);
  EXPECT_NE(order_of(1, 1, 1000), order);
  // Neighbours do not stay neighbours: by chance about 1 of 1000 does.
  int following = 0;
  for (std::size_t at = 1; at < order.size(); ++at) following += order[at] == order[at - 1] + 1 ? 1 : 0;
  EXPECT_LT(following, 20);
}

TEST(RowOrder, ReachesBeyondWhat32BitsCount) {
  const std::uint64_t count = (std::uint64_t{1} << 40) + 12345;
  std::set<std::uint64_t> seen;
  for (std::uint64_t index = count - 1000; index < count; ++index) {
    const std::uint64_t to = permuted(7, 3, index, count);
    EXPECT_LT(to, count);
    seen.insert(to);
  }
  EXPECT_EQ(seen.size(), 1000U);
}

TEST(RowOrder, AShuffledRowIsAFunctionOfItsNumber) {
  // The same row, as row 5 of step 2 of batches of 8, and as row 1 of step 5 of batches of 4.
  const RowOrder order{.shuffle_seed = 11};
  EXPECT_EQ(row_start(order, 2, 8, 5, 16, 5000), row_start(order, 5, 4, 1, 16, 5000));
  EXPECT_EQ(row_start({}, 2, 8, 5, 16, 5000), 21U * 16 % (5000 - 17));
}

}  // namespace
}  // namespace tombolo::trainer
