#include <gtest/gtest.h>

#include "base/error.h"
#include "tools/emulation/spec.h"
#include "tools/launch/launcher.h"

namespace tombolo::tools {
namespace {

using Names = std::vector<std::string>;

std::vector<topology::Host> hosts(const std::vector<std::tuple<const char*, const char*, int>>& list) {
  std::vector<topology::Host> all;
  for (const auto& [name, cluster, devices] : list) {
    topology::Host host;
    host.name = name;
    host.cluster = cluster;
    host.devices.resize(static_cast<std::size_t>(devices));
    all.push_back(host);
  }
  return all;
}

const auto kFour = hosts({{"a0", "A", 1}, {"a1", "A", 1}, {"b0", "B", 1}, {"b1", "B", 1}});

TEST(RankOrder, FillsHostAfterHostInBlockOrder) {
  EXPECT_EQ(map_ranks("block", kFour, 4), (Names{"a0", "a1", "b0", "b1"}));
  EXPECT_EQ(map_ranks("", kFour, 3), (Names{"a0", "a1", "b0"}));
  EXPECT_EQ(map_ranks("block", hosts({{"a0", "A", 2}, {"b0", "B", 2}}), 4), (Names{"a0", "a0", "b0", "b0"}));
}

TEST(RankOrder, SpreadsMoreRanksThanDevicesInEqualRuns) {
  EXPECT_EQ(map_ranks("block", kFour, 6), (Names{"a0", "a0", "a1", "a1", "b0", "b1"}));
  EXPECT_EQ(map_ranks("block", kFour, 8), (Names{"a0", "a0", "a1", "a1", "b0", "b0", "b1", "b1"}));
}

TEST(RankOrder, TakesTheClustersInTurnWhenInterleaved) {
  EXPECT_EQ(map_ranks("interleaved", kFour, 4), (Names{"a0", "b0", "a1", "b1"}));
  EXPECT_EQ(map_ranks("interleaved", kFour, 6), (Names{"a0", "b0", "a1", "b1", "a0", "b0"}));
  EXPECT_EQ(map_ranks("interleaved", hosts({{"a0", "A", 2}, {"a1", "A", 1}, {"b0", "B", 1}}), 4),
            (Names{"a0", "b0", "a0", "a1"}));
}

TEST(RankOrder, TakesNamesAsTheyAre) {
  EXPECT_EQ(map_ranks("b1,a0,b1,a1", kFour, 4), (Names{"b1", "a0", "b1", "a1"}));
}

std::string message_of(std::string_view order, int ranks) {
  try {
    map_ranks(order, kFour, ranks);
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    return error.what();
  }
  return "no error";
}

TEST(RankOrder, SaysWhatIsWrong) {
  EXPECT_NE(message_of("a0,c9,a1,b0", 4).find("'c9'"), std::string::npos) << message_of("a0,c9,a1,b0", 4);
  EXPECT_NE(message_of("a0,c9,a1,b0", 4).find("a0, a1, b0, b1"), std::string::npos);
  EXPECT_NE(message_of("a0,a1", 4).find("2 hosts are named for 4 ranks"), std::string::npos);
  EXPECT_NE(message_of("blok", 1).find("'blok'"), std::string::npos);
  EXPECT_NE(message_of("block", 0).find("at least one"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::tools
