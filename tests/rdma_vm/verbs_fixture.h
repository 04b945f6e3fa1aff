// For tests of the RDMA transport over real verbs: they run inside tests/rdma_vm's machine, or wherever
// TOMBOLO_TEST_RDMA names NICs (transport/testing/test_support.h).
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/randomized_test.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport {

class Verbs : public testing::Test {
 protected:
  void SetUp() override {
    if (test::rdma_hosts().size() != 2) GTEST_SKIP() << "TOMBOLO_TEST_RDMA names no NICs";
  }
  static test::Pair connect(std::size_t nics = 1, const RdmaOptions& options = {}) {
    auto both = test::rdma_router_options(nics, options);
    Router left(both.at(0)), right(both.at(1));
    auto listener = right.listen();
    return test::connect_pair(left, *listener);
  }
  std::mt19937_64 random_{test_seed()};
};

/// One acknowledgement timeout of 67 ms: a silent peer is noticed in half a second, or at worst in two.
inline RdmaOptions impatient() {
  RdmaOptions options;
  options.timeout = 14;
  return options;
}

/// The two hosts with their first RDMA NIC each, and an Ethernet one that reaches.
inline std::vector<RouterOptions> with_ethernet(const RdmaOptions& options = impatient()) {
  auto both = test::rdma_router_options(1, options);
  for (int side = 0; side < 2; ++side) {
    topology::Nic nic;
    nic.name = side == 0 ? "ea" : "eb";
    nic.addresses = {side == 0 ? "10.78.0.1" : "10.78.0.2"};
    both[side].host.nics.push_back(nic);
    both[side].policy.transports.clear();
  }
  return both;
}

}  // namespace tombolo::transport
