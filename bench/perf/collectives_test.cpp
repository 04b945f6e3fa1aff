#include <gtest/gtest.h>

#include "bench/perf/collective.h"

namespace tombolo::bench {
namespace {

void expect_shape(const Shape& shape, std::size_t count, std::size_t send, std::size_t receive,
                  std::size_t input_step, std::size_t result_step) {
  EXPECT_EQ(shape.count, count);
  EXPECT_EQ(shape.send, send);
  EXPECT_EQ(shape.receive, receive);
  EXPECT_EQ(shape.input_step, input_step);
  EXPECT_EQ(shape.result_step, result_step);
}

TEST(PerfShape, IsNcclTests) {
  expect_shape(shape_of(Partitioning::kWhole, 1003, 4, 3), 250, 250, 250, 0, 0);
  // 1000 bytes over 3 ranks are 83 floats each, of which whole 16 bytes are 80.
  expect_shape(shape_of(Partitioning::kJoins, 1000, 4, 3), 80, 80, 240, 80, 0);
  expect_shape(shape_of(Partitioning::kDivides, 1000, 4, 3), 80, 240, 80, 0, 80);
  expect_shape(shape_of(Partitioning::kExchanges, 1000, 4, 3), 80, 240, 240, 0, 0);
  expect_shape(shape_of(Partitioning::kJoins, 1000, 1, 3), 320, 320, 960, 320, 0);
  expect_shape(shape_of(Partitioning::kJoins, 1000, 8, 3), 40, 40, 120, 40, 0);
  // Fewer than 16 bytes for each rank are none.
  expect_shape(shape_of(Partitioning::kDivides, 32, 4, 4), 0, 0, 0, 0, 0);
}

TEST(PerfFactors, AreNcclTests) {
  const std::pair<const char*, double> of_four[] = {
      {"all_reduce", 1.5}, {"all_gather", 0.75}, {"reduce_scatter", 0.75}, {"broadcast", 1},
      {"reduce", 1},       {"alltoall", 0.75},   {"sendrecv", 1},          {"gather", 0.75},
      {"scatter", 0.75},   {"hypercube", 1}};
  EXPECT_EQ(std::size(of_four), all_collectives().size());
  for (const auto& [name, factor] : of_four) {
    const Collective* collective = find_collective(name);
    ASSERT_NE(collective, nullptr) << name;
    EXPECT_DOUBLE_EQ(collective->bus_factor(4), factor) << name;
    EXPECT_DOUBLE_EQ(collective->algorithm_factor(4), std::string_view(name) == "hypercube" ? 0.75 : 1)
        << name;
  }
  EXPECT_EQ(find_collective("all"), nullptr);
}

// Rank 2 of 4, root 1, parts of 10: where the 25th element of the result comes from.
TEST(PerfOrigin, FollowsTheDefinition) {
  const RankContext context{10, 2, 4, 1};
  const auto expect = [&](const char* name, Origin::Kind kind, std::size_t index, int rank) {
    const Origin origin = find_collective(name)->origin(context, 25);
    EXPECT_EQ(origin.kind, kind) << name;
    if (kind == Origin::kUntouched) return;
    EXPECT_EQ(origin.index, index) << name;
    if (kind == Origin::kCopy) {
      EXPECT_EQ(origin.rank, rank) << name;
    }
  };
  expect("all_reduce", Origin::kReduced, 25, 0);
  expect("reduce", Origin::kUntouched, 0, 0);
  expect("reduce_scatter", Origin::kReduced, 45, 0);
  expect("broadcast", Origin::kCopy, 25, 1);
  expect("all_gather", Origin::kCopy, 5, 2);
  expect("hypercube", Origin::kCopy, 5, 2);
  expect("gather", Origin::kUntouched, 0, 0);
  expect("scatter", Origin::kCopy, 45, 1);
  expect("alltoall", Origin::kCopy, 25, 2);
  expect("sendrecv", Origin::kCopy, 25, 1);
  const RankContext on_root{10, 1, 4, 1};
  EXPECT_EQ(find_collective("reduce")->origin(on_root, 25).kind, Origin::kReduced);
  EXPECT_EQ(find_collective("gather")->origin(on_root, 25).rank, 2);
}

}  // namespace
}  // namespace tombolo::bench
