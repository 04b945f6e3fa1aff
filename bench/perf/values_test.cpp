#include "bench/perf/values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "collectives/data/small_float.h"

namespace tombolo::bench {
namespace {

// The expected result of a reduction over 16 ranks, where a byte wraps around.
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
        const int value = static_cast<int>(bytes.input(rank, i));
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
    for (const auto as : {tomboloInt8, tomboloUint8, tomboloInt16, tomboloUint16, tomboloInt32, tomboloUint32,
                          tomboloInt64, tomboloUint64, tomboloFloat16, tomboloFloat32, tomboloFloat64,
                          tomboloBfloat16, tomboloFloat8e4m3, tomboloFloat8e5m2}) {
      const std::size_t element = tomboloTypeSize(as);
      const Values values{*find_collective(name), as, tomboloSum, 1, {kElements, 0, 1, -1}};
      std::vector<std::byte> right(kElements * element), found;
      values.fill_expected(right.data(), kElements);
      found = right;
      EXPECT_EQ(values.count_wrong(found.data(), right.data(), kElements), 0) << name << as;
      // The input of another rank differs in nearly all elements.
      const Values others{*find_collective(name), as, tomboloSum, 1, {kElements, 1, 2, -1}};
      others.fill_input(found.data(), kElements);
      EXPECT_GE(values.count_wrong(found.data(), right.data(), kElements), 80) << name << as;
      found = right;
      std::fill_n(found.begin() + static_cast<std::ptrdiff_t>(17 * element), element, std::byte{0xff});
      EXPECT_EQ(values.count_wrong(found.data(), right.data(), kElements), 1) << name << as;
    }
  }
}

using collectives::from_float;
using collectives::to_float;

/// `op` on one element of each, rounded, as two ranks combine theirs.
template <typename T>
T combined(T left, T right, tomboloRedOp_t op) {
  const float a = to_float(left), b = to_float(right);
  return from_float<T>(op == tomboloProd  ? a * b
                       : op == tomboloMin ? std::min(a, b)
                       : op == tomboloMax ? std::max(a, b)
                                          : a + b);
}

/// Combines the inputs of all ranks but `without` in the order of `ranks`, rounded after each.
template <typename T>
std::vector<T> reduced(const std::vector<std::vector<T>>& inputs, const std::vector<int>& ranks,
                       tomboloRedOp_t op, int without = -1) {
  std::vector<T> result;
  for (const int rank : ranks) {
    if (rank == without) continue;
    const auto& input = inputs[static_cast<std::size_t>(rank)];
    if (result.empty()) {
      result = input;
      continue;
    }
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = combined(result[i], input[i], op);
  }
  if (op == tomboloAvg)
    for (T& one : result) one = from_float<T>(to_float(one) / static_cast<float>(inputs.size()));
  return result;
}

template <typename T>
std::byte* bytes_of(std::vector<T>& elements) {
  return reinterpret_cast<std::byte*>(elements.data());
}

template <typename T>
void expect_exact_reductions(tomboloDataType_t type, tomboloRedOp_t op, int ranks) {
  SCOPED_TRACE(::testing::Message() << "type " << type << ", op " << op << ", " << ranks << " ranks");
  constexpr std::size_t kElements = 300;
  const Collective& all_reduce = *find_collective("all_reduce");
  std::vector<std::vector<T>> inputs(static_cast<std::size_t>(ranks), std::vector<T>(kElements));
  std::vector<int> order;
  for (int rank = 0; rank < ranks; ++rank) {
    const Values values{all_reduce, type, op, 5, {kElements, rank, ranks, -1}};
    values.fill_input(bytes_of(inputs[static_cast<std::size_t>(rank)]), kElements);
    T factor;
    values.fill_factor(reinterpret_cast<std::byte*>(&factor));
    if (op == kMulSum)
      for (T& one : inputs[static_cast<std::size_t>(rank)]) one = combined(one, factor, tomboloProd);
    order.push_back(rank);
  }
  const Values values{all_reduce, type, op, 5, {kElements, 0, ranks, -1}};
  std::vector<T> expected(kElements);
  values.fill_expected(bytes_of(expected), kElements);
  const auto wrong = [&](std::vector<T> result) {
    return values.count_wrong(bytes_of(result), bytes_of(expected), kElements);
  };
  EXPECT_EQ(wrong(reduced(inputs, order, op)), 0);
  std::ranges::reverse(order);
  EXPECT_EQ(wrong(reduced(inputs, order, op)), 0) << "from the last rank to the first";
  if ((op != tomboloSum && op != kMulSum) || ranks == 1) return;
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_GT(wrong(reduced(inputs, order, op, rank)), 0) << "rank " << rank << " was left out";
  const auto two = std::ranges::count_if(
      expected, [](T one) { return static_cast<int>(to_float(one)) % 3 == 0 && to_float(one) > 0; });
  EXPECT_GT(two, 0) << "at no index do several ranks add something, for each adds a power of two";
}

TEST(PerfValues, ReductionsOfEightBitFloatsAreExactInAnyOrder) {
  for (const auto op : {tomboloSum, tomboloProd, tomboloMin, tomboloMax, tomboloAvg, kMulSum})
    for (const int ranks : {1, 3, 8, 9, 17, 64, 100}) {
      expect_exact_reductions<collectives::Float8E4m3>(tomboloFloat8e4m3, op, ranks);
      expect_exact_reductions<collectives::Float8E5m2>(tomboloFloat8e5m2, op, ranks);
    }
}

TEST(PerfValues, CopiesOfEightBitFloatsAreNotRoundedToFew) {
  constexpr std::size_t kElements = 1000;
  for (const auto type : {tomboloFloat8e4m3, tomboloFloat8e5m2}) {
    std::vector<std::byte> input(kElements);
    Values{*find_collective("all_gather"), type, tomboloSum, 3, {kElements, 0, 2, -1}}.fill_input(
        input.data(), kElements);
    EXPECT_GT((std::set<std::byte>(input.begin(), input.end())).size(), 100U);
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
