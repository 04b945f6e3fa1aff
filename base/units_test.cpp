#include "base/units.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tombolo {
namespace {

TEST(Units, ParsesSizesAsPeopleWriteThem) {
  EXPECT_EQ(parse_size("0", "x"), 0U);
  EXPECT_EQ(parse_size("8", "x"), 8U);
  EXPECT_EQ(parse_size("64K", "x"), 64 * kKiB);
  EXPECT_EQ(parse_size("16MiB", "x"), 16 * kMiB);
  EXPECT_EQ(parse_size("1gb", "x"), kGiB);
}

TEST(Units, RejectsWhatIsNotASizeAndNamesIt) {
  for (const char* text :
       {"", "K", "-1", "1.5M", "8X", "8KK", "99999999999999999999", "18446744073709551615G"}) {
    try {
      parse_size(text, "--size");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
      EXPECT_NE(std::string(error.what()).find("--size"), std::string::npos);
    }
  }
}

TEST(Units, FormatsSizesExactlyWhereAPowerDivides) {
  EXPECT_EQ(format_size(512), "512 B");
  EXPECT_EQ(format_size(64 * kKiB), "64 KiB");
  EXPECT_EQ(format_size(kMiB + kMiB / 2), "1.50 MiB");
}

TEST(Units, FormatsRatesAndTimes) {
  EXPECT_EQ(format_bit_rate(12.5e6), "100 Mbit/s");
  EXPECT_EQ(format_bit_rate(125e6), "1 Gbit/s");
  EXPECT_EQ(format_seconds(0.012), "12 ms");
  EXPECT_EQ(format_seconds(6e-6), "6 us");
}

}  // namespace
}  // namespace tombolo
