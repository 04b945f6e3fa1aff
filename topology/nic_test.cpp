#include "topology/nic.h"

#include <gtest/gtest.h>

namespace tombolo::topology {
namespace {

TEST(Nic, KindsHaveTheNamesThatFilesBear) {
  for (const NicKind kind : {NicKind::kInfiniBand, NicKind::kRoce, NicKind::kIwarp, NicKind::kTcp})
    EXPECT_EQ(nic_kind_from_name(nic_kind_name(kind)), kind);
  EXPECT_EQ(nic_kind_from_name("ethernet"), std::nullopt);
  EXPECT_EQ(nic_kind_from_name(""), std::nullopt);
}

TEST(Nic, KindsAreInTheOrderOfPreference) {
  EXPECT_LT(NicKind::kInfiniBand, NicKind::kRoce);
  EXPECT_LT(NicKind::kRoce, NicKind::kIwarp);
  EXPECT_LT(NicKind::kIwarp, NicKind::kTcp);
  EXPECT_TRUE(is_rdma(NicKind::kIwarp));
  EXPECT_FALSE(is_rdma(NicKind::kTcp));
}

TEST(Nic, SubnetPrefixIsTheFirstHalfOfTheFirstGid) {
  Nic nic;
  EXPECT_EQ(subnet_prefix(nic), "");
  nic.gids = {{0, "fe80:0000:0000:0001:b859:9f03:00c3:ab60", "IB/RoCE v1"}, {1, "fd00:...", "IB/RoCE v1"}};
  EXPECT_EQ(subnet_prefix(nic), "fe80:0000:0000:0001");
}

}  // namespace
}  // namespace tombolo::topology
