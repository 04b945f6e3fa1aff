#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "bench/perf/collective.h"
#include "bench/perf/values.h"

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
  expect_shape(shape_of(Layout::kWhole, 1003, 4, 3), 250, 250, 250, 0, 0);
  // 1000 bytes over 3 ranks are 83 floats each, of which whole 16 bytes are 80.
  expect_shape(shape_of(Layout::kJoins, 1000, 4, 3), 80, 80, 240, 80, 0);
  expect_shape(shape_of(Layout::kDivides, 1000, 4, 3), 80, 240, 80, 0, 80);
  expect_shape(shape_of(Layout::kExchanges, 1000, 4, 3), 80, 240, 240, 0, 0);
  expect_shape(shape_of(Layout::kJoins, 1000, 1, 3), 320, 320, 960, 320, 0);
  expect_shape(shape_of(Layout::kJoins, 1000, 8, 3), 40, 40, 120, 40, 0);
  // Fewer than 16 bytes for each rank are none.
  expect_shape(shape_of(Layout::kDivides, 32, 4, 4), 0, 0, 0, 0, 0);
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
  const Place place{10, 2, 4, 1};
  const auto expect = [&](const char* name, Origin::Kind kind, std::size_t index, int rank) {
    const Origin origin = find_collective(name)->origin(place, 25);
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
  const Place on_root{10, 1, 4, 1};
  EXPECT_EQ(find_collective("reduce")->origin(on_root, 25).kind, Origin::kReduced);
  EXPECT_EQ(find_collective("gather")->origin(on_root, 25).rank, 2);
}

// What must come out of 16 ranks' reduction, where a byte wraps around.
TEST(PerfValues, WrapAndDivideAsIntegersDo) {
  const Collective& all_reduce = *find_collective("all_reduce");
  constexpr std::size_t kElements = 64;
  for (const auto op : {tomboloSum, tomboloProd, tomboloMin, tomboloMax, tomboloAvg}) {
    const Values bytes{all_reduce, tomboloInt8, op, 7, {kElements, 0, 16, -1}};
    std::int8_t expected[kElements];
    bytes.fill_expected(reinterpret_cast<std::byte*>(expected), kElements);
    for (std::size_t i = 0; i < kElements; ++i) {
      int all = op == tomboloProd || op == tomboloMin ? (op == tomboloMin ? 127 : 1) : 0;
      for (int rank = 0; rank < 16; ++rank) {
        const int value = static_cast<int>(input_value(all_reduce, op, 7, rank, i));
        all = op == tomboloProd  ? all * value
              : op == tomboloMin ? std::min(all, value)
              : op == tomboloMax ? std::max(all, value)
                                 : all + value;
      }
      const auto wrapped = static_cast<std::int8_t>(all);
      EXPECT_EQ(expected[i], op == tomboloAvg ? wrapped / 16 : wrapped) << op << " of element " << i;
    }
  }
}

TEST(PerfValues, CountEveryElementThatDiffers) {
  constexpr std::size_t kElements = 100;
  for (const char* name : {"all_reduce", "all_gather"}) {
    for (const auto as :
         {tomboloInt8, tomboloUint8, tomboloInt16, tomboloUint16, tomboloInt32, tomboloUint32, tomboloInt64,
          tomboloUint64, tomboloFloat16, tomboloFloat32, tomboloFloat64, tomboloBfloat16}) {
      const std::size_t element = tomboloTypeSize(as);
      const Values values{*find_collective(name), as, tomboloSum, 1, {kElements, 0, 1, -1}};
      std::vector<std::byte> right(kElements * element), found;
      values.fill_expected(right.data(), kElements);
      found = right;
      EXPECT_EQ(values.count_wrong(found.data(), right.data(), kElements), 0) << name << as;
      // Of another rank, so that nearly all differ; and one that is no number, or -1.
      const Values others{*find_collective(name), as, tomboloSum, 1, {kElements, 1, 2, -1}};
      others.fill_input(found.data(), kElements);
      EXPECT_GT(values.count_wrong(found.data(), right.data(), kElements), 80) << name << as;
      found = right;
      std::fill_n(found.begin() + static_cast<std::ptrdiff_t>(17 * element), element, std::byte{0xff});
      EXPECT_EQ(values.count_wrong(found.data(), right.data(), kElements), 1) << name << as;
    }
  }
}

// A float's last bit may differ once it was rounded on the way, but not where it was only copied.
TEST(PerfValues, AllowRoundingInReductionsOnly) {
  for (const char* name : {"all_reduce", "all_gather"}) {
    const Values values{*find_collective(name), tomboloFloat32, tomboloAvg, 1, {1, 0, 3, -1}};
    const float right = 2.0F / 3;
    const float near = std::nextafter(right, 1.0F), far = right * 1.0001F;
    const auto wrong = [&](const float& found) {
      return values.count_wrong(reinterpret_cast<const std::byte*>(&found),
                                reinterpret_cast<const std::byte*>(&right), 1);
    };
    EXPECT_EQ(wrong(near), std::string_view(name) == "all_gather" ? 1 : 0);
    EXPECT_EQ(wrong(far), 1);
  }
}

}  // namespace
}  // namespace tombolo::bench
