// Faults of the network that a test makes with ip(8) and tc(8), which need root, and takes back.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace tombolo::transport {

inline void run_command(const std::string& command) {
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

inline void link_down(const std::string& nic) {
  run_command("ip link set " + nic + " down");
}

/// With the routes of the first rail, which go with its link.
inline void link_up(const std::string& nic) {
  run_command("ip link set " + nic + " up && bash -c '. \"$TOMBOLO_TEST_NETWORK\" && rail_again 0'");
}

/// The NIC's kernel goes on having a route and an address, but no packet of RoCE leaves it.
inline void swallow_roce(const std::string& nic) {
  run_command("tc qdisc add dev " + nic + " root handle 1: prio && tc filter add dev " + nic +
              " parent 1: protocol ip u32 match ip dport 4791 0xffff action drop");
}

inline void deliver_all(const std::string& nic) {
  run_command("tc qdisc del dev " + nic + " root");
}

}  // namespace tombolo::transport
