// Pages at the edges; report_test.cpp has an ordinary one.
#include <gtest/gtest.h>

#include "tools/cli/testing.h"
#include "tools/demo/testing_report.h"

namespace tombolo::tools::demo {
namespace {

TEST(DemoPage, OfNothingHasNoFiguresThatAreNone) {
  const std::string page = Report().to_html();
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>")) << page.substr(0, 40);
  for (const char* number : {"nan", "\"inf", "\"-inf", ">inf"})
    EXPECT_EQ(page.find(number), std::string::npos) << number;
  EXPECT_MENTIONS(page, "<b>none</b><span>loss over 0 steps</span>");
  EXPECT_EQ(page.find("Emulated on one machine"), std::string::npos) << "hardware is not emulated";
}

TEST(DemoPage, SaysWhyTheHostsAreOnlyLoopbackAddresses) {
  Report report = made_up_report();
  EXPECT_MENTIONS(report.to_html(), "Each host is a network namespace of its own");
  report.environment.emulation = "loopback";
  report.environment.emulation_reason = "unshare: <no>";
  EXPECT_MENTIONS(report.to_html(), "Network namespaces were not permitted (unshare: &lt;no&gt;)");
}

TEST(DemoPage, PlacesEveryRankWithItsCluster) {
  Report report = made_up_report();
  EXPECT_MENTIONS(report.to_html(), "<td>A0 (A) + B0 (B): 4 layers</td>");
  EXPECT_MENTIONS(report.to_html(), "<td>A0 (A) + A1 (A): 4 layers</td>");
  report.runs[2].plan.ranks[0].host = "gone";
  EXPECT_MENTIONS(report.to_html(), "<td>gone + A1 (A): 4 layers</td>");
}

TEST(DemoPage, LeavesOutWhatIsNotThere) {
  Report report = made_up_report();
  EXPECT_MENTIONS(report.to_html(), "Holmes plan: measured");
  EXPECT_MENTIONS(report.to_html(), "What it writes after these steps");
  EXPECT_MENTIONS(report.to_html(), "<dd>0.1.0</dd>");
  for (auto& run : report.runs) run.measured.clear();
  report.sample.clear();
  report.environment.commit = "abc";
  const std::string page = report.to_html();
  EXPECT_EQ(page.find("Holmes plan: measured"), std::string::npos);
  EXPECT_EQ(page.find("What it writes after these steps"), std::string::npos);
  EXPECT_MENTIONS(page, "<dd>0.1.0, commit abc</dd>");
}

TEST(DemoPage, NamesANicOfTwoKindsOnce) {
  EXPECT_MENTIONS(made_up_report().to_html(), "<h3>fast0: InfiniBand and RoCE</h3>");
  EXPECT_MENTIONS(made_up_report().to_html(), "<h3>eth0: Ethernet</h3>");
}

}  // namespace
}  // namespace tombolo::tools::demo
