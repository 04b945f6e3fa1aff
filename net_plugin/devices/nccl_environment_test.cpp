#include "net_plugin/devices/nccl_environment.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace tombolo::net_plugin {
namespace {

using Entry = NicFilter::Entry;
using topology::Nic;
using topology::NicKind;

TEST(NicFilter, ReadsNcclsSyntax) {
  struct Case {
    const char* text;
    bool exclude, exact;
    std::vector<Entry> entries;
  };
  const Case cases[] = {
      {"", false, false, {}},
      {"eth", false, false, {{"eth"}}},
      {"eth0,eth1", false, false, {{"eth0"}, {"eth1"}}},
      {",eth0,,eth1,", false, false, {{"eth0"}, {"eth1"}}},
      {"=eth0", false, true, {{"eth0"}}},
      {"^docker,lo", true, false, {{"docker"}, {"lo"}}},
      {"^=docker0", true, true, {{"docker0"}}},
      {"=^docker0", false, true, {{"^docker0"}}},  // the other order is a name that begins with ^
      {"^", true, false, {}},
      {"=", false, true, {}},
      {"mlx5_0:1,mlx5_1:2", false, false, {{"mlx5_0", 1}, {"mlx5_1", 2}}},
      {"=mlx5_0:1:3:4", false, true, {{"mlx5_0", 1, 3, 4}}},
      {"mlx5_0::3", false, false, {{"mlx5_0", -1, 3}}},
      {"mlx5_0:", false, false, {{"mlx5_0"}}},
      {"mlx5_0:one", false, false, {{"mlx5_0", 0}}},
      {":1,eth0", false, false, {{"eth0"}}},
  };
  for (const Case& one : cases) {
    const NicFilter filter = NicFilter::parse(one.text);
    EXPECT_EQ(filter.exclude, one.exclude) << one.text;
    EXPECT_EQ(filter.exact, one.exact) << one.text;
    EXPECT_EQ(filter.entries, one.entries) << one.text;
  }
}

TEST(NicFilter, TakesWhatNcclTakes) {
  struct Case {
    const char* text;
    const char* name;
    int port;
    bool taken;
  };
  const Case cases[] = {
      {"", "eth0", -1, true},
      {"eth", "eth0", -1, true},
      {"eth1", "eth10", -1, true},  // beginnings match more than one may mean
      {"=eth1", "eth10", -1, false},
      {"=eth1", "eth1", -1, true},
      {"eth1", "eth", -1, false},
      {"^eth", "eth0", -1, false},
      {"^eth", "ib0", -1, true},
      {"^=eth0", "eth01", -1, true},
      {"^", "eth0", -1, false},
      {"mlx5_0:1", "mlx5_0", 1, true},
      {"mlx5_0:1", "mlx5_0", 2, false},
      {"mlx5_0:1", "mlx5_0", -1, true},
      {"mlx5_0", "mlx5_0", 2, true},
      {"mlx5_1", "mlx5_10", 1, true},
      {"=mlx5_1", "mlx5_10", 1, false},
      {"^mlx5_0:2", "mlx5_0", 1, true},
      {"^mlx5_0:2", "mlx5_0", 2, false},
      {"mlx5_0:2,mlx5_0:1", "mlx5_0", 1, true},
  };
  for (const Case& one : cases)
    EXPECT_EQ(NicFilter::parse(one.text).takes(one.name, one.port), one.taken)
        << one.text << " " << one.name << ":" << one.port;
}

NcclEnvironment environment(const std::map<std::string, std::string>& set) {
  return NcclEnvironment::read([&](const char* name) -> const char* {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  });
}

std::string effect_of(const NcclEnvironment& read, const std::string& variable) {
  for (const SeenVariable& one : read.seen)
    if (one.name == variable) return one.effect;
  return "not seen";
}

Nic a_nic(const std::string& name, NicKind kind, const std::string& device = {},
          std::vector<std::string> addresses = {"10.0.0.1"}) {
  Nic nic;
  nic.name = name;
  nic.kind = kind;
  nic.rdma_device = device;
  nic.rdma_port = device.empty() ? 0 : 1;
  nic.addresses = std::move(addresses);
  nic.state = topology::NicState::kUp;
  return nic;
}

std::vector<Nic> two_rails() {
  std::vector<Nic> nics{a_nic("ib0", NicKind::kInfiniBand, "mlx5_0"),
                        a_nic("ib1", NicKind::kInfiniBand, "mlx5_1"), a_nic("eth0", NicKind::kTcp),
                        a_nic("eth1", NicKind::kTcp), a_nic("veth0", NicKind::kTcp)};
  nics.back().usable = false;
  nics.back().role = topology::NicRole::kVirtual;
  return nics;
}

/// The names of what is used under these variables; the error's text where they leave nothing.
std::string used(const std::map<std::string, std::string>& set, std::vector<Nic> nics = two_rails()) {
  try {
    environment(set).apply(nics);
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    return error.what();
  }
  std::string names;
  for (const Nic& nic : nics)
    if (nic.usable) names += (names.empty() ? "" : " ") + nic.name;
  return names;
}

TEST(NcclEnvironment, FiltersConcernTheNicsOfTheirKind) {
  EXPECT_EQ(used({}), "ib0 ib1 eth0 eth1");
  EXPECT_EQ(used({{"NCCL_SOCKET_IFNAME", "eth1"}}), "ib0 ib1 eth1");
  EXPECT_EQ(used({{"NCCL_SOCKET_IFNAME", "^eth1"}}), "ib0 ib1 eth0");
  EXPECT_EQ(used({{"NCCL_IB_HCA", "=mlx5_1:1"}}), "ib1 eth0 eth1");
  EXPECT_EQ(used({{"NCCL_IB_HCA", "^mlx5_1"}, {"NCCL_SOCKET_IFNAME", "=eth0"}}), "ib0 eth0");
  EXPECT_EQ(used({{"NCCL_SOCKET_IFNAME", "ib0"}}), "ib0 ib1") << "TCP then goes over the RDMA NIC alone";
  EXPECT_EQ(used({{"NCCL_SOCKET_IFNAME", "x"}}), "ib0 ib1 eth0 eth1") << "NCCL ignores one character";
}

TEST(NcclEnvironment, OursComesFirst) {
  EXPECT_EQ(
      used({{"TOMBOLO_NET_NICS", "mlx5_1,eth1"}, {"NCCL_IB_HCA", "mlx5_0"}, {"NCCL_SOCKET_IFNAME", "eth0"}}),
      "ib1 eth1");
  EXPECT_EQ(used({{"TOMBOLO_NET_NICS", "^mlx5_1,eth1"}}), "ib0 eth0");
  EXPECT_EQ(used({{"TOMBOLO_NET_NICS", "=ib0"}}), "ib0");
  const auto read = environment({{"TOMBOLO_NET_NICS", "ib"}, {"NCCL_IB_HCA", "mlx5_0"}});
  EXPECT_EQ(effect_of(read, "NCCL_IB_HCA"), "not looked at: TOMBOLO_NET_NICS is set");
}

TEST(NcclEnvironment, ANamedNicIsUsedThatDetectionWouldNot) {
  EXPECT_EQ(used({{"NCCL_SOCKET_IFNAME", "veth0"}}), "ib0 ib1 veth0");
  EXPECT_EQ(used({{"NCCL_SOCKET_IFNAME", "^eth0"}}), "ib0 ib1 eth1") << "leaving others out names none";
  std::vector<Nic> down{a_nic("eth0", NicKind::kTcp), a_nic("veth0", NicKind::kTcp)};
  down[1].usable = false;
  down[1].state = topology::NicState::kDown;
  EXPECT_NE(used({{"NCCL_SOCKET_IFNAME", "veth0"}}, down).find("leaves none"), std::string::npos);
}

TEST(NcclEnvironment, AFilterThatLeavesNothingIsAnErrorThatNamesTheNics) {
  for (const char* part : {"NCCL_SOCKET_IFNAME='en0'", "eth0 (tcp)", "eth1 (tcp)",
                           "veth0 (tcp, not used by default)", "TOMBOLO_NET_NICS"})
    EXPECT_NE(used({{"NCCL_SOCKET_IFNAME", "en0"}}).find(part), std::string::npos) << part;
  for (const char* part : {"NCCL_IB_HCA='=mlx4_0'", "ib0 (infiniband mlx5_0)", "ib1 (infiniband mlx5_1)"})
    EXPECT_NE(used({{"NCCL_IB_HCA", "=mlx4_0"}}).find(part), std::string::npos) << part;
  EXPECT_NE(used({{"TOMBOLO_NET_NICS", "^ib,eth,veth,mlx"}}).find("leaves none"), std::string::npos);
  // The variables are set alike on all hosts, also on those without RDMA.
  EXPECT_EQ(used({{"NCCL_IB_HCA", "mlx5"}}, {a_nic("eth0", NicKind::kTcp)}), "eth0");
  EXPECT_EQ(used({{"NCCL_SOCKET_IFNAME", "eth0"}}, {a_nic("ib0", NicKind::kInfiniBand, "mlx5_0")}), "ib0");
}

TEST(NcclEnvironment, RdmaSwitchedOffLeavesTheInterfaces) {
  auto nics = two_rails();
  nics[1].emulated = true;
  environment({{"NCCL_IB_DISABLE", "1"}}).apply(nics);
  EXPECT_EQ(nics[0].kind, NicKind::kTcp);
  EXPECT_TRUE(nics[0].usable);
  EXPECT_FALSE(nics[1].usable) << "an emulated one carries nothing but what it pretends";
  EXPECT_EQ(used({{"NCCL_IB_DISABLE", "1"}, {"NCCL_SOCKET_IFNAME", "eth"}}), "eth0 eth1");
  EXPECT_FALSE(environment({{"NCCL_IB_DISABLE", "0"}}).rdma_off);
  const auto read = environment({{"NCCL_IB_DISABLE", "1"}, {"TOMBOLO_TRANSPORTS", "rdma,tcp"}});
  EXPECT_FALSE(read.rdma_off);
  EXPECT_EQ(effect_of(read, "NCCL_IB_DISABLE"), "not looked at: TOMBOLO_TRANSPORTS is set");
}

TEST(NcclEnvironment, TheSocketFamilySaysWhichAddressesAreUsed) {
  const std::vector<Nic> both{a_nic("eth0", NicKind::kTcp, "", {"10.0.0.1", "fd00::1"})};
  for (const auto& [family, left] : std::map<std::string, std::vector<std::string>>{
           {"AF_INET", {"10.0.0.1"}}, {"AF_INET6", {"fd00::1"}}, {"AF_UNIX", {"10.0.0.1", "fd00::1"}}}) {
    auto nics = both;
    environment({{"NCCL_SOCKET_FAMILY", family}}).apply(nics);
    EXPECT_EQ(nics[0].addresses, left) << family;
  }
  const std::string refused = used({{"NCCL_SOCKET_FAMILY", "AF_INET6"}}, {a_nic("eth0", NicKind::kTcp)});
  for (const char* part : {"NCCL_SOCKET_FAMILY='AF_INET6'", "eth0", "IPv4"})
    EXPECT_NE(refused.find(part), std::string::npos) << refused;
}

TEST(NcclEnvironment, NumbersOfRdmaAreTakenWhereOursAreNotSet) {
  transport::RdmaOptions options;
  const auto read = environment({{"NCCL_IB_GID_INDEX", "3"},
                                 {"NCCL_IB_TC", "0x6a"},
                                 {"NCCL_IB_SL", "5"},
                                 {"NCCL_IB_TIMEOUT", "22"},
                                 {"NCCL_IB_RETRY_CNT", "6"},
                                 {"TOMBOLO_RDMA_SL", "1"}});
  options.service_level = 1;  // what TOMBOLO_RDMA_SL set
  read.apply(options);
  EXPECT_EQ(options.gid_index, 3);
  EXPECT_EQ(options.traffic_class, 0x6a);
  EXPECT_EQ(options.service_level, 1);
  EXPECT_EQ(options.timeout, 22);
  EXPECT_EQ(options.retries, 6);
  EXPECT_EQ(effect_of(read, "NCCL_IB_SL"), "not looked at: TOMBOLO_RDMA_SL is set");
  EXPECT_EQ(effect_of(read, "NCCL_IB_TC"), "taken for TOMBOLO_RDMA_TC");

  transport::RdmaOptions untouched, before;
  environment({{"NCCL_IB_GID_INDEX", "-1"}, {"NCCL_IB_TC", "99999999999999999999"}}).apply(untouched);
  EXPECT_EQ(untouched.gid_index, before.gid_index);
  EXPECT_EQ(untouched.traffic_class, before.traffic_class);
  try {
    environment({{"NCCL_IB_TIMEOUT", "40"}});
    FAIL() << "no error";
  } catch (const Error& error) {
    for (const char* part : {"NCCL_IB_TIMEOUT=40", "1 to 31", "TOMBOLO_RDMA_TIMEOUT"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(NcclEnvironment, RailsAndPlanesOfAListAreKnown) {
  const auto read = environment({{"NCCL_IB_HCA", "mlx5_0:1:2:3,mlx5_1"}});
  const auto nics = two_rails();
  ASSERT_NE(read.entry_of(nics[0]), nullptr);
  EXPECT_EQ(*read.entry_of(nics[0]), (Entry{"mlx5_0", 1, 2, 3}));
  EXPECT_EQ(read.entry_of(nics[1])->rail, -1);
  EXPECT_EQ(read.entry_of(nics[2]), nullptr);
  EXPECT_EQ(effect_of(environment({{"NCCL_NET_GDR_LEVEL", "PXB"}}), "NCCL_NET_GDR_LEVEL").substr(0, 10),
            "NCCL's own");
}

}  // namespace
}  // namespace tombolo::net_plugin
