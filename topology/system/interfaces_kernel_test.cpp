// The interfaces of the namespace that the test runs in, of which every machine has "lo".
#include "topology/system/interfaces_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tombolo::topology {
namespace {

TEST(KernelInterfaces, AreListedByNameWithTheirNumbers) {
  const KernelInterfaces kernel;
  const auto& list = kernel.list();
  EXPECT_TRUE(std::ranges::is_sorted(list));
  EXPECT_TRUE(std::ranges::any_of(list, [](const auto& one) { return one.first == "lo"; }));
  for (const auto& one : list) EXPECT_GT(one.second, 0) << one.first;
}

TEST(KernelInterfaces, HaveTheirAddressesIpv4FirstAndLinkLocalOnesLast) {
  const KernelInterfaces kernel;
  for (const auto& one : kernel.list()) {
    const auto addresses = kernel.addresses(one.first);
    const auto order = [](const std::string& address) {
      return address.find(':') == std::string::npos ? 0 : address.starts_with("fe8") ? 2 : 1;
    };
    EXPECT_TRUE(std::ranges::is_sorted(addresses, {}, order)) << one.first;
    for (const std::string& address : addresses)
      EXPECT_EQ(order(address) == 2, address.ends_with("%" + one.first)) << address;
  }
}

TEST(KernelInterfaces, OfLoopbackTellRoleMtuAndHardwareAddress) {
  const KernelInterfaces kernel;
  Interface loopback;
  loopback.nic.name = "lo";
  kernel.read_all(loopback);
  EXPECT_EQ(loopback.nic.role, NicRole::kLoopback);
  EXPECT_EQ(loopback.what, "loopback");
  EXPECT_GT(loopback.nic.mtu, 0);
  EXPECT_EQ(loopback.nic.rate_bits_per_second, 0U);
  EXPECT_NE(loopback.nic.state, NicState::kUnknown);
  EXPECT_TRUE(kernel.has_hardware_address("lo", "00:00:00:00:00:00"));
  EXPECT_FALSE(kernel.has_hardware_address("lo", "02:fc:00:00:00:01"));
  EXPECT_FALSE(kernel.has_hardware_address("lo", ""));
}

TEST(KernelInterfaces, ThatAreGoneAreAnsweredWithNothing) {
  const KernelInterfaces kernel;
  // The second name is longer than any that the kernel takes.
  for (const std::string name : {"tombolo-gone", "a-name-that-no-kernel-would-accept"}) {
    EXPECT_TRUE(kernel.addresses(name).empty());
    EXPECT_EQ(kernel.driver(name), "");
    EXPECT_FALSE(kernel.has_hardware_address(name, "00:00:00:00:00:00"));
    Interface interface;
    interface.nic.name = name;
    interface.nic.mtu = 7;
    kernel.read_all(interface);
    EXPECT_EQ(interface.nic.state, NicState::kUnknown) << name;
    EXPECT_EQ(interface.nic.mtu, 7) << name;
    EXPECT_FALSE(interface.enabled) << name;
  }
}

}  // namespace
}  // namespace tombolo::topology
