#include "transport/rdma/gid.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace tombolo::transport::rdma {
namespace {

using topology::Gid;
using topology::NicKind;

// As a ConnectX port with an IPv4, a global and a link-local IPv6 address lists them.
const std::vector<Gid> kTable{{0, "fe80:0000:0000:0000:0e42:a1ff:fe00:0001", "IB/RoCE v1"},
                              {1, "fe80:0000:0000:0000:0e42:a1ff:fe00:0001", "RoCE v2"},
                              {2, "fd00:0000:0000:0000:0000:0000:0000:0007", "IB/RoCE v1"},
                              {3, "fd00:0000:0000:0000:0000:0000:0000:0007", "RoCE v2"},
                              {4, "0000:0000:0000:0000:0000:ffff:0a00:0007", "IB/RoCE v1"},
                              {5, "0000:0000:0000:0000:0000:ffff:0a00:0007", "RoCE v2"},
                              {6, "0000:0000:0000:0000:0000:ffff:c0a8:0007", "RoCE v2"}};

TEST(GidChoice, TakesRoceV2OfTheNicsOwnAddress) {
  EXPECT_EQ(choose_gid(kTable, NicKind::kRoce, "10.0.0.7", -1).index, 5);
  EXPECT_EQ(choose_gid(kTable, NicKind::kRoce, "192.168.0.7", -1).index, 6);
  EXPECT_EQ(choose_gid(kTable, NicKind::kRoce, "fd00::7", -1).index, 3);
}

TEST(GidChoice, PrefersIpv4AndAvoidsLinkLocalWhereTheAddressIsUnknown) {
  EXPECT_EQ(choose_gid(kTable, NicKind::kRoce, "", -1).index, 5);
  std::vector<Gid> without(kTable.begin(), kTable.begin() + 4);
  EXPECT_EQ(choose_gid(without, NicKind::kRoce, "10.0.0.7", -1).index, 3);
}

TEST(GidChoice, TakesRoceV1OnlyWhereThereIsNothingElse) {
  std::vector<Gid> old;
  for (const Gid& gid : kTable)
    if (gid.type == "IB/RoCE v1") old.push_back(gid);
  EXPECT_EQ(choose_gid(old, NicKind::kRoce, "10.0.0.7", -1).index, 4);
}

TEST(GidChoice, InfiniBandTakesTheFirst) {
  const std::vector<Gid> table{{1, "fe80:0000:0000:0000:0000:0000:0000:0002", "IB/RoCE v1"},
                               {0, "fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1"}};
  EXPECT_EQ(choose_gid(table, NicKind::kInfiniBand, "10.0.0.7", -1).index, 0);
}

TEST(GidChoice, TheEnvironmentsIndexIsTakenAsItIs) {
  EXPECT_EQ(choose_gid(kTable, NicKind::kRoce, "10.0.0.7", 0).index, 0);
  try {
    choose_gid(kTable, NicKind::kRoce, "10.0.0.7", 77);
    FAIL() << "index 77 is not in the table";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("TOMBOLO_RDMA_GID_INDEX=77"), std::string::npos) << error.what();
  }
  EXPECT_THROW(choose_gid({}, NicKind::kRoce, "10.0.0.7", -1), Error);
}

}  // namespace
}  // namespace tombolo::transport::rdma
