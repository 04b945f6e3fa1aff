#include "net_plugin/comms/net_attributes.h"

#include <gtest/gtest.h>

namespace tombolo::net_plugin {
namespace {

TEST(NetAttributes, KeepWhatWasSetLast) {
  NetAttributes kept;
  EXPECT_EQ(
      describe(kept.get()),
      "sends to ? peers over ? connections each, receives from ? peers over ? connections each, operations "
      "?, algorithms ?, protocols ?");
  const abi::ncclNetAttr_v11_t first{{4, 1, 2, 2}, {3, 3, -1, 1}, 0x3, 0x10, 0x7};
  EXPECT_TRUE(kept.set(first));
  EXPECT_FALSE(kept.set(first));
  EXPECT_EQ(
      describe(kept.get()),
      "sends to 1 to 4 peers over 2 connections each, receives from 3 peers over 1 to ? connections each, "
      "operations 0x3, algorithms 0x10, protocols 0x7");
}

TEST(NetAttributes, TellWhenAnyOfThemChanges) {
  const abi::ncclNetAttr_v11_t before{{1, 2, 3, 4}, {5, 6, 7, 8}, 9, 10, 11};
  const auto changes = [&](auto&& change) {
    NetAttributes kept;
    kept.set(before);
    abi::ncclNetAttr_v11_t after = before;
    change(after);
    return kept.set(after) && !kept.set(after);
  };
  for (auto member :
       {&abi::ncclNetCommAttr_v11_t::maxConcurrentPeers, &abi::ncclNetCommAttr_v11_t::minConcurrentPeers,
        &abi::ncclNetCommAttr_v11_t::maxFlowsPerPeer, &abi::ncclNetCommAttr_v11_t::minFlowsPerPeer}) {
    EXPECT_TRUE(changes([&](abi::ncclNetAttr_v11_t& one) { one.sendCommAttr.*member = 99; }));
    EXPECT_TRUE(changes([&](abi::ncclNetAttr_v11_t& one) { one.recvCommAttr.*member = 99; }));
  }
  for (auto member :
       {&abi::ncclNetAttr_v11_t::op, &abi::ncclNetAttr_v11_t::algo, &abi::ncclNetAttr_v11_t::proto})
    EXPECT_TRUE(changes([&](abi::ncclNetAttr_v11_t& one) { one.*member = 99; }));
}

}  // namespace
}  // namespace tombolo::net_plugin
