#include "tests/simulation/checks/reference.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace tombolo::simulation {
namespace {

using collectives::Collective;
using collectives::ReduceOp;

class Reference : public testing::Test {
 protected:
  std::vector<std::int32_t> numbers(const std::vector<std::byte>& bytes) {
    std::vector<std::int32_t> all(bytes.size() / sizeof(std::int32_t));
    std::memcpy(all.data(), bytes.data(), bytes.size());
    return all;
  }
  StepView view(std::size_t me) { return {step_, 4, members_, me}; }
  std::vector<std::int32_t> input(std::size_t me) { return numbers(input_of(view(me))); }
  std::vector<std::int32_t> expected(std::size_t me) { return numbers(expected_of(view(me))); }
  void take(Collective collective, ReduceOp op = ReduceOp::kSum) {
    step_.collective = collective;
    step_.op = op;
    step_.count = 40;
    step_.root = 4;  // the second of three members
  }

  CollectiveStep step_;
  std::vector<unsigned> members_{0, 2, 4};
};

TEST_F(Reference, SumsElementByElement) {
  take(Collective::kAllReduce);
  const auto a = input(0), b = input(1), c = input(2);
  EXPECT_NE(a, b);
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(expected(0)[i], a[i] + b[i] + c[i]);
  EXPECT_EQ(expected(0), expected(2));
}

TEST_F(Reference, MultipliesAndAverages) {
  take(Collective::kAllReduce, ReduceOp::kProduct);
  EXPECT_EQ(expected(1)[3], input(0)[3] * input(1)[3] * input(2)[3]);
  take(Collective::kAllReduce, ReduceOp::kAverage);
  EXPECT_EQ(expected(1)[3], (input(0)[3] + input(1)[3] + input(2)[3]) / 3);
}

TEST_F(Reference, GivesEachMemberItsPartOfAReduction) {
  take(Collective::kReduceScatter, ReduceOp::kMax);
  ASSERT_EQ(input(0).size(), 120u);
  EXPECT_EQ(expected(2).size(), 40u);
  EXPECT_EQ(expected(2)[1], std::max({input(0)[81], input(1)[81], input(2)[81]}));
}

TEST_F(Reference, PutsPartsBehindEachOther) {
  take(Collective::kAllGather);
  auto all = input(0);
  for (const std::size_t member : {1U, 2U}) {
    const auto more = input(member);
    all.insert(all.end(), more.begin(), more.end());
  }
  EXPECT_EQ(expected(1), all);
  take(Collective::kGather);
  EXPECT_TRUE(expected(0).empty()) << "the root alone gets something";
  EXPECT_EQ(expected(1).size(), 120u);
}

TEST_F(Reference, TakesTheRootsDataAndExchangesParts) {
  take(Collective::kBroadcast);
  EXPECT_EQ(expected(2), input(1));
  take(Collective::kScatter);
  EXPECT_EQ(expected(2)[0], input(1)[80]);
  take(Collective::kAllToAll);
  EXPECT_EQ(expected(2)[0], input(0)[80]);
  EXPECT_EQ(expected(0)[84], input(2)[4]);
}

}  // namespace
}  // namespace tombolo::simulation
