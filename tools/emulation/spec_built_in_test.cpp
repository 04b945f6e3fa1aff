// Settings of the built-in emulations at the edges; spec_test.cpp has ordinary ones.
#include <gtest/gtest.h>

#include "tools/cli/testing.h"
#include "tools/emulation/spec_parts.h"

namespace tombolo::emulation {
namespace {

using tools::error_of;

std::string built_in_error(const std::string& text) {
  return error_of([&] { built_in_spec(text); });
}

TEST(BuiltInSpec, IsOfThreeNamesOnly) {
  for (const char* name : {"holmes", "two-clusters", "two-paths"}) {
    ASSERT_TRUE(built_in_spec(name)) << name;
    EXPECT_EQ(built_in_spec(name)->name, name);
    EXPECT_EQ(built_in_spec(std::string(name) + ":")->hosts.size(), built_in_spec(name)->hosts.size())
        << "no settings are the defaults";
  }
  for (const char* other : {"", "holmes2", "Holmes", "two", ":holmes", "holmes.json"})
    EXPECT_FALSE(built_in_spec(other)) << other;
}

TEST(BuiltInSpec, TakesAsManyHostsAsThereMayBe) {
  EXPECT_EQ(built_in_spec("holmes:hosts=64")->hosts.size(), kMaxHosts);
  EXPECT_EQ(built_in_spec("two-clusters:hosts=2")->hosts.size(), 2U);
  for (const char* hosts : {"0", "1", "66", "-2", "4x", "", "4.0"})
    EXPECT_MENTIONS(built_in_error(std::string("holmes:hosts=") + hosts),
                    "is not an even number from 2 to 64");
}

TEST(BuiltInSpec, TheLastOfTwoEqualSettingsCounts) {
  EXPECT_EQ(built_in_spec("holmes:slow=1mbit,slow=2mbit")->hosts[0].nics[1].bits_per_second, 2e6);
  EXPECT_NO_THROW(built_in_spec("holmes:slow=1mbit,"));
}

TEST(BuiltInSpec, NamesTheSettingsThatThereAre) {
  EXPECT_MENTIONS(built_in_error("holmes:fast"),
                  "'fast' is not one of its settings (fast=4gbit,hosts=4,slow=100mbit)");
  EXPECT_MENTIONS(built_in_error("holmes:,slow=1mbit"), "'' is not one of its settings");
  EXPECT_MENTIONS(built_in_error("two-paths:hosts=2"), "'hosts=2' is not one of its settings");
  EXPECT_MENTIONS(built_in_error("two-clusters:rate=0"), "emulation 'two-clusters': rate");
}

TEST(BuiltInSpec, TwoPathsHaveNoMoreLinksThanRates) {
  EXPECT_EQ(built_in_spec("two-paths:rates=1gbit")->links.size(), 1U);
  EXPECT_EQ(built_in_spec("two-paths:rates=1gbit/")->links.size(), 1U);
  EXPECT_MENTIONS(built_in_error("two-paths:rates=1gbit//1gbit"), "'' is not a rate");
}

TEST(RoundTrip, IsATimeOfAtMostTenSeconds) {
  EXPECT_EQ(parse_round_trip("10s", "rtt"), std::chrono::seconds(10));
  EXPECT_EQ(parse_round_trip("0ms", "rtt"), Duration::zero());
  for (const char* wrong : {"10.001s", "-1ms", "ms", "1"})
    EXPECT_MENTIONS(error_of([&] { parse_round_trip(wrong, "my rtt"); }), "my rtt");
}

TEST(Loss, IsAShareBelowAll) {
  EXPECT_DOUBLE_EQ(parse_loss("99.9%", "loss"), 0.999);
  EXPECT_EQ(parse_loss("0%", "loss"), 0);
  for (const char* wrong : {"100%", "-0.1%", "nan%", "inf%", "%", "1", "1 %", "1%%", "", "0x1%"})
    EXPECT_MENTIONS(error_of([&] { parse_loss(wrong, "my loss"); }), "my loss");
}

}  // namespace
}  // namespace tombolo::emulation
