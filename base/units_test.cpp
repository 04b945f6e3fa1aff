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

TEST(Units, ParsesBitRatesAsPeopleWriteThem) {
  EXPECT_EQ(parse_bit_rate("100mbit", "x"), 1e8);
  EXPECT_EQ(parse_bit_rate("2.5G", "x"), 2.5e9);
  EXPECT_EQ(parse_bit_rate("100M", "x"), 1e8);
  EXPECT_EQ(parse_bit_rate("64kbit/s", "x"), 64e3);
  EXPECT_EQ(parse_bit_rate("1T", "x"), 1e12);
  EXPECT_EQ(parse_bit_rate("1000000", "x"), 1e6);
}

TEST(Units, RejectsWhatIsNotABitRateAndNamesIt) {
  for (const char* text :
       {"", "fast", "-1mbit", "0", "1mbyte", "5MB", "1e300g", "nan", "inf", "5 gbit", "2000T"}) {
    try {
      parse_bit_rate(text, "--rate");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
      EXPECT_NE(std::string(error.what()).find("--rate: '"), std::string::npos) << error.what();
    }
  }
}

TEST(Units, FormatsRatesAndTimes) {
  EXPECT_EQ(format_bit_rate(12.5e6), "100 Mbit/s");
  EXPECT_EQ(format_bit_rate(125e6), "1 Gbit/s");
  EXPECT_EQ(format_flops(1.5e15), "1.5 PFLOP/s");
  EXPECT_EQ(format_flops(31.4e12), "31.4 TFLOP/s");
  EXPECT_EQ(format_flops(10e9), "10 GFLOP/s");
  EXPECT_EQ(counted(1, "stage"), "1 stage");
  EXPECT_EQ(counted(0, "stage"), "0 stages");
  EXPECT_EQ(format_seconds(0.012), "12 ms");
  EXPECT_EQ(format_seconds(6e-6), "6 us");
}

}  // namespace
}  // namespace tombolo
