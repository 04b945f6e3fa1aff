#include "tools/reports/html.h"

#include <gtest/gtest.h>

namespace tombolo::tools {
namespace {

TEST(Html, APageIsOneDocumentWithItsStyle) {
  const std::string page = html_page("A <title>", "<p>body</p>\n");
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>")) << page.substr(0, 40);
  EXPECT_NE(page.find("<title>A &lt;title&gt;</title>"), std::string::npos);
  EXPECT_NE(page.find("<main>\n<p>body</p>\n</main>"), std::string::npos) << "the body is HTML already";
  EXPECT_NE(page.find(":root {"), std::string::npos);
}

TEST(Html, TextsOfAllPartsAreEscaped) {
  EXPECT_EQ(html_section("a < b", "<i>x</i>"), "<section>\n<h2>a &lt; b</h2>\n<i>x</i></section>\n");
  EXPECT_EQ(html_tile("<1 %", "\"much\""),
            "<div class=\"tile\"><b>&lt;1 %</b><span>&quot;much&quot;</span></div>\n");
  EXPECT_EQ(html_note("a & b"), "<p class=\"note\">a &amp; b</p>\n");
  EXPECT_EQ(html_legend({{"bar", "<bar>"}, {"mark", "mark"}}),
            "<div class=\"legend\"><span><i style=\"background: var(--bar)\"></i>&lt;bar&gt;</span>"
            "<span><i style=\"background: var(--mark)\"></i>mark</span></div>\n");
}

TEST(Html, ATableAlignsItsNumbers) {
  EXPECT_EQ(html_table({"host", "bytes"}, {{"a<0>", "1"}, {"b0", "22"}}, 1),
            "<div class=\"wide\"><table><thead><tr><th scope=\"col\">host</th><th scope=\"col\" "
            "class=\"number\">bytes</th></tr>\n"
            "</thead><tbody><tr><td>a&lt;0&gt;</td><td class=\"number\">1</td></tr>\n"
            "<tr><td>b0</td><td class=\"number\">22</td></tr>\n</tbody></table></div>\n");
  EXPECT_EQ(html_table({"none"}, {}, 1),
            "<div class=\"wide\"><table><thead><tr><th "
            "scope=\"col\">none</th></tr>\n</thead><tbody></tbody></table></div>\n");
}

TEST(Html, EveryKindOfNicHasItsOwnName) {
  using topology::NicKind;
  EXPECT_EQ(kind_title(NicKind::kInfiniBand), "InfiniBand");
  EXPECT_EQ(kind_title(NicKind::kRoce), "RoCE");
  EXPECT_EQ(kind_title(NicKind::kIwarp), "iWARP");
  EXPECT_EQ(kind_title(NicKind::kTcp), "Ethernet");
}

}  // namespace
}  // namespace tombolo::tools
