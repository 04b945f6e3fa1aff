#include "base/parse_duration.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tombolo {
namespace {

TEST(ParseDuration, ReadsNumbersWithUnits) {
  EXPECT_EQ(parse_duration("20ms", "x"), std::chrono::milliseconds(20));
  EXPECT_EQ(parse_duration("1.5s", "x"), std::chrono::milliseconds(1500));
  EXPECT_EQ(parse_duration("300us", "x"), std::chrono::microseconds(300));
  EXPECT_EQ(parse_duration("0ns", "x"), Duration::zero());
}

TEST(ParseDuration, RejectsWhatIsNoTimeNamingIt) {
  for (const char* text : {"", "20", "ms", "-1ms", "nanms", "20 ms", "20mss", "1e10s"}) {
    try {
      parse_duration(text, "rtt");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
      EXPECT_NE(std::string(error.what()).find("rtt"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace tombolo
