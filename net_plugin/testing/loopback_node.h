// For tests: nodes whose only device is the loopback interface, so that comms of one process find each other.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "net_plugin/comms/node.h"
#include "transport/testing/test_support.h"

namespace tombolo::net_plugin::testing_support {

/// A node of its own on host a0; no `transports` are all. An attempt to connect fails after 60 s.
inline std::shared_ptr<Node> loopback_node(std::vector<std::string> transports = {}) {
  auto node = std::make_shared<Node>();
  node->devices = std::make_unique<DeviceList>(
      make_devices(transport::test::loopback_host("a0", "lo"), DeviceMode::kAuto));
  node->router.policy.transports = std::move(transports);
  node->deadline = std::chrono::seconds(60);
  return node;
}

/// A node over TCP, of rank 3, that tells of waits of 30 s on `clock`, which must outlive it. An attempt to
/// connect fails after 600 s on it.
inline std::shared_ptr<Node> node_that_tells_of_stalls(const Clock& clock) {
  auto node = loopback_node({"tcp"});
  node->deadline = std::chrono::seconds(600);
  node->router.clock = &clock;
  node->stalls = std::make_shared<StallReports>(std::chrono::seconds(30), "3", "a0");
  return node;
}

}  // namespace tombolo::net_plugin::testing_support
