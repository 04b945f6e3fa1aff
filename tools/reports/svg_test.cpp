#include "tools/reports/svg.h"

#include <gtest/gtest.h>

namespace tombolo::tools {
namespace {

TEST(Svg, TicksAreRoundAndCoverTheTop) {
  EXPECT_EQ(ticks(0, 5), (std::vector<double>{0, 1}));
  auto marks = ticks(0.93, 5);
  EXPECT_EQ(marks.front(), 0);
  EXPECT_GE(marks.back(), 0.93);
  EXPECT_NEAR(marks[1], 0.2, 1e-12);
  EXPECT_NEAR(ticks(5, 5).back(), 5, 1e-12);
}

TEST(Svg, EscapesWhatMarkupCannotHold) {
  EXPECT_EQ(escape("a<b>&\"'\x01\n"), "a&lt;b&gt;&amp;&quot;&#39;?\n");
}

TEST(Svg, ShortensNumbersToThreeDigits) {
  EXPECT_EQ(short_number(0.1234), "0.123");
  EXPECT_EQ(short_number(350), "350");
  EXPECT_EQ(short_number(12'345), "12.3 k");
  EXPECT_EQ(short_number(-2.1e6), "-2.1 M");
  EXPECT_EQ(short_bytes(999), "999 B");
  EXPECT_EQ(short_bytes(1'600'000), "1.6 MB");
}

TEST(Svg, ADrawingIsOneElementWithItsDescription) {
  Svg svg(100, 50, "a < b");
  svg.rectangle(0, 0, 10, 10, "bar", "tip & more");
  const std::string text = svg.finish();
  EXPECT_TRUE(text.starts_with("<svg viewBox=\"0 0 100 50\"")) << text;
  EXPECT_NE(text.find("aria-label=\"a &lt; b\""), std::string::npos) << text;
  EXPECT_NE(text.find("<title>tip &amp; more</title>"), std::string::npos) << text;
  EXPECT_NE(text.find("</svg>"), std::string::npos) << text;
}

}  // namespace
}  // namespace tombolo::tools
