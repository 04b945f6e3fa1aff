// What a rank tells of itself, and between which NICs it measures; pair_judgement_test.cpp measures one way.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <thread>

#include "base/descriptor.h"
#include "base/temporary_folder.h"
#include "tools/doctor/pair.h"

namespace tombolo::doctor {
namespace {

topology::Nic nic_at(const std::string& name, std::vector<std::string> addresses) {
  topology::Nic nic;
  nic.name = name;
  nic.addresses = std::move(addresses);
  return nic;
}

TEST(OwnHostFacts, AreOfNicsThatOthersCanReach) {
  topology::Host host;
  host.name = "a0";
  host.nics = {nic_at("eth0", {"169.254.7.7", "10.0.0.1", "fd00::1"}), nic_at("eth1", {"fe80::1"}),
               nic_at("eth2", {}), nic_at("eth3", {"10.0.0.4"})};
  host.nics[0].kind = topology::NicKind::kRoce;
  host.nics[0].fabric = "roce-A";
  host.nics[0].mtu = 1500;
  host.nics[0].rate_bits_per_second = 100'000'000'000;
  host.nics[0].gids = {{0, "fe80::", "IB/RoCE v1"}, {1, "fe80::", "RoCE v2"}, {2, "::ffff", "RoCE v2"}};
  host.nics[3].usable = false;
  topology::Machine machine;
  machine.nics = {nic_at("eth0", {})};
  machine.nics[0].mtu = 9000;
  const HostFacts facts = own_host_facts(3, host, machine, "/nonexistent");
  EXPECT_EQ(facts.rank, 3);
  EXPECT_EQ(facts.host, "a0");
  EXPECT_EQ(facts.version, TOMBOLO_VERSION);
  ASSERT_EQ(facts.nics.size(), 1U);
  EXPECT_EQ(facts.nics[0].address, "10.0.0.1") << "not the one of the link alone";
  EXPECT_EQ(facts.nics[0].kind, "roce");
  EXPECT_EQ(facts.nics[0].fabric, "roce-A");
  EXPECT_EQ(facts.nics[0].mtu, 9000) << "the kernel's goes before the cluster file's";
  EXPECT_EQ(facts.nics[0].gid_types, (std::vector<std::string>{"IB/RoCE v1", "RoCE v2"}));
  EXPECT_EQ(facts.nics[0].tcp_port, 0);
  EXPECT_TRUE(facts.settings.empty()) << "none could be read";
  machine.nics.clear();
  EXPECT_EQ(own_host_facts(3, host, machine, "/nonexistent").nics[0].mtu, 1500);
}

TEST(OwnHostFacts, TellMachinesApartByTheirBoot) {
  const TemporaryFolder folder;
  folder.write("proc/sys/kernel/random/boot_id", "abc\n");
  folder.write("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n");
  folder.write("proc/sys/net/ipv4/tcp_wmem", "");
  const HostFacts facts = own_host_facts(0, {}, {}, folder.path());
  EXPECT_TRUE(facts.machine.starts_with("abc ")) << facts.machine;
  EXPECT_EQ(facts.settings,
            (std::map<std::string, std::string>{{"net.ipv4.tcp_rmem", "4096\t131072\t6291456"}}));
  EXPECT_EQ(own_host_facts(1, {}, {}, folder.path()).machine, facts.machine);
  folder.write("proc/sys/kernel/random/boot_id", "def\n");
  EXPECT_NE(own_host_facts(0, {}, {}, folder.path()).machine, facts.machine);
}

HostFacts facts_of(const std::vector<std::pair<std::string, std::string>>& fabrics_and_addresses) {
  HostFacts facts;
  for (const auto& [fabric, address] : fabrics_and_addresses) {
    auto& nic = facts.nics.emplace_back();
    nic.name = "eth" + std::to_string(facts.nics.size() - 1);
    nic.fabric = fabric;
    nic.address = address;
  }
  return facts;
}

TEST(MeasureWays, GoFromEachNicToThoseOfItsFabricAndFamily) {
  const HostFacts mine = facts_of({{"", "127.0.0.1"}, {"x", "127.0.0.1"}, {"", "::1"}});
  HostFacts theirs = facts_of({{"", "127.0.0.2"}, {"x", "127.0.0.3"}, {"", "127.0.0.4"}, {"y", "127.0.0.5"}});
  const Responder responder(theirs);
  theirs.nics[2].tcp_port = 0;  // could not be bound
  const auto ways = measure_ways(mine, theirs);
  ASSERT_EQ(ways.size(), 2U);
  EXPECT_EQ(ways[0].peer_address, "127.0.0.2");
  EXPECT_EQ(ways[1].nic, "eth1");
  EXPECT_EQ(ways[1].peer_address, "127.0.0.3");
  for (const Way& way : ways) {
    EXPECT_EQ(way.reach, Way::Reach::kConnected) << way.error;
    EXPECT_TRUE(way.bulk_arrived);
    EXPECT_GE(way.bulk_acknowledged, 1U << 20);
    EXPECT_GT(way.path_mtu, 0);
    EXPECT_EQ(way.packet_arrived, 0) << "of a NIC without a known MTU there are no sizes to try";
  }
}

TEST(MeasureWays, APeerThatClosesIsConnectedAndLetsNothingThrough) {
  Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&at), length), 0);
  ASSERT_EQ(::listen(listener.get(), 8), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &length), 0);
  HostFacts theirs = facts_of({{"", "127.0.0.1"}});
  theirs.nics[0].tcp_port = ntohs(at.sin_port);
  std::thread closing(
      [&] { const Descriptor client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)); });
  const auto ways = measure_ways(facts_of({{"", "127.0.0.1"}}), theirs);
  closing.join();
  ASSERT_EQ(ways.size(), 1U);
  EXPECT_EQ(ways[0].reach, Way::Reach::kConnected);
  EXPECT_FALSE(ways[0].bulk_arrived);
  EXPECT_EQ(ways[0].round_trip, 0) << "it never answered";
}

}  // namespace
}  // namespace tombolo::doctor
