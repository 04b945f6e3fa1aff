#include "net_plugin/comms/node.h"

#include <gtest/gtest.h>

#include "topology/detect.h"

namespace tombolo::net_plugin {
namespace {

topology::Host host_of_nics(std::vector<topology::Nic> nics) {
  topology::Host host;
  host.name = "a0";
  host.nics = std::move(nics);
  return host;
}

topology::Nic nic_of_role(const std::string& name, topology::NicRole role) {
  topology::Nic made;
  made.name = name;
  made.kind = topology::NicKind::kTcp;
  made.rate_bits_per_second = 10'000'000'000;
  made.addresses = {"10.0.0.1"};
  made.role = role;
  return made;
}

TEST(PoorChoice, LoopbackAloneIsToldWithWhatItCannotReach) {
  const std::string warning =
      poor_choice_warning(host_of_nics({nic_of_role("lo", topology::NicRole::kLoopback)}));
  for (const char* part : {"host 'a0'", "lo (loopback)", "only ranks on this host", "TOMBOLO_CLUSTER"})
    EXPECT_NE(warning.find(part), std::string::npos) << warning << " lacks " << part;
}

TEST(PoorChoice, VirtualOnesAndTunnelsAreNamed) {
  const std::string warning = poor_choice_warning(host_of_nics(
      {nic_of_role("veth0", topology::NicRole::kVirtual), nic_of_role("wg0", topology::NicRole::kTunnel)}));
  for (const char* part : {"veth0 (virtual), wg0 (tunnel)", "all there is"})
    EXPECT_NE(warning.find(part), std::string::npos) << warning << " lacks " << part;
}

TEST(PoorChoice, OneRealNicIsEnoughToSayNothing) {
  EXPECT_EQ(poor_choice_warning(host_of_nics({nic_of_role("veth0", topology::NicRole::kVirtual),
                                              nic_of_role("eth0", topology::NicRole::kPhysical)})),
            "");
  // A NIC that is not used does not count.
  auto down = nic_of_role("eth0", topology::NicRole::kPhysical);
  down.usable = false;
  EXPECT_NE(poor_choice_warning(host_of_nics({nic_of_role("veth0", topology::NicRole::kVirtual), down})), "");
}

TEST(PoorChoice, IsLoggedForThisHostExactlyWhereItApplies) {
  std::string logged;
  make_node(Log(LogLevel::kWarning, [&](LogLevel, std::string_view text) { logged += text; }));
  const bool applies =
      !topology::cluster_file_from_environment() && !poor_choice_warning(topology::local_host({})).empty();
  EXPECT_EQ(logged.find("no NIC that would be used by default") != std::string::npos, applies) << logged;
}

}  // namespace
}  // namespace tombolo::net_plugin
