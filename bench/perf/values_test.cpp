#include "bench/perf/values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

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
      // The input of another rank differs in nearly all elements.
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
