#include "probe/rounds/nic_pairs.h"

#include <gtest/gtest.h>

namespace tombolo::probe {
namespace {

topology::Nic nic_on(topology::NicKind kind, const std::string& fabric) {
  topology::Nic made;
  made.kind = kind;
  made.fabric = fabric;
  made.addresses = {"10.0.0.1"};
  return made;
}

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

TEST(NicPairs, AreThoseOfOneKindAndFabricBestKindFirst) {
  const auto ethernet = nic_on(topology::NicKind::kTcp, ""),
             ib_a = nic_on(topology::NicKind::kInfiniBand, "A"),
             ib_b = nic_on(topology::NicKind::kInfiniBand, "B"),
             roce_a = nic_on(topology::NicKind::kRoce, "A");
  topology::Host left, right;
  left.nics = {ethernet, ib_a, ib_b};
  right.nics = {roce_a, ib_a, ethernet, ib_a};
  EXPECT_EQ(nic_pairs(left, right), (Pairs{{1, 1}, {1, 3}, {0, 2}}));
}

TEST(NicPairs, NeedNicsThatAreUsableAndHaveAnAddress) {
  topology::Host left, right;
  left.nics = right.nics = {nic_on(topology::NicKind::kTcp, ""), nic_on(topology::NicKind::kTcp, "")};
  left.nics[0].usable = false;
  right.nics[1].addresses.clear();
  EXPECT_EQ(nic_pairs(left, right), (Pairs{{1, 0}}));
  EXPECT_TRUE(joins(right.nics[0], topology::NicKind::kTcp, ""));
  EXPECT_FALSE(joins(right.nics[1], topology::NicKind::kTcp, ""));
  EXPECT_FALSE(joins(right.nics[0], topology::NicKind::kTcp, "storage"));
}

}  // namespace
}  // namespace tombolo::probe
