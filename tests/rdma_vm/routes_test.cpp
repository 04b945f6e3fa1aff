// Which way a connection begins: over the RDMA NICs, or not, where the network between them carries nothing.
#include "tests/rdma_vm/network_faults.h"
#include "tests/rdma_vm/verbs_fixture.h"

namespace tombolo::transport {
namespace {

using test::expect_carried;
using test::expect_in;
using test::random_data;
using test::rdma_hosts;
using test::rdma_router_options;

TEST_F(Verbs, TheRouteNamesTransportAndNics) {
  auto pair = connect();
  EXPECT_EQ(pair.first->route().transport, "rdma");
  EXPECT_EQ(pair.first->route().kind, topology::NicKind::kRoce);
  EXPECT_EQ(pair.first->route().local_nic, rdma_hosts()[0].nics[0].name);
  EXPECT_EQ(pair.first->route().peer_nic, rdma_hosts()[1].nics[0].name);
  EXPECT_EQ(pair.second->route().local_nic, rdma_hosts()[1].nics[0].name);
  EXPECT_EQ(pair.second->route().transport, "rdma");
}

TEST_F(Verbs, DifferentMtusAreBridgedByTheSmaller) {
  const std::string nic = rdma_hosts()[0].nics[0].name;
  run_command("ip link set " + nic + " mtu 1500");
  {
    auto both = rdma_router_options(1);
    auto meters = std::make_shared<Meters>();
    both.at(0).meters = meters;
    Router left(both.at(0)), right(both.at(1));
    auto listener = right.listen();
    auto pair = test::connect_pair(left, *listener);
    auto data = random_data(random_, 300'000);
    std::vector<std::byte> buffer(data.size());
    expect_carried(*pair.first, *pair.second, data, buffer);
    ASSERT_EQ(meters->read().connections.size(), 1u);
    EXPECT_EQ(meters->read().connections[0].streams.at(1).path_mtu, 1024u);
  }
  run_command("ip link set " + nic + " mtu 4200");
}

TEST_F(Verbs, FabricsWithoutARouteBetweenThemEndOnTcpWithTheReason) {
  auto both = with_ethernet();
  // The left end's first rail and the right end's second: nothing leads from the one to the other.
  both[1].host.nics[0] = rdma_hosts()[1].nics.at(1);
  std::vector<std::string> lines;
  both[0].log = Log(LogLevel::kInfo, [&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  {
    Router left(both[0]), right(both[1]);
    auto listener = right.listen();
    auto pair = test::connect_pair(left, *listener);
    ASSERT_TRUE(pair.first);
    EXPECT_EQ(pair.first->route().transport, "tcp");
    EXPECT_EQ(pair.first->route().local_nic, "ea");
    expect_in(pair.first->route().reason, "rdma was tried first");
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    expect_in(all, "rdma was tried first");
    std::vector<std::byte> data(100'000, std::byte{9}), buffer(100'000);
    expect_carried(*pair.first, *pair.second, data, buffer);
  }
}

TEST_F(Verbs, WhereRdmaIsRequiredADeadFabricIsAnErrorAndNotAFallback) {
  auto both = with_ethernet();
  both[1].host.nics[0] = rdma_hosts()[1].nics.at(1);
  both[0].policy.require_rdma = true;
  {
    Router left(both[0]), right(both[1]);
    auto listener = right.listen();
    auto connecting = left.connect(listener->endpoint(), {});
    std::string what;
    for (auto deadline = test::soon(); what.empty() && !deadline.passed();) {
      try {
        ASSERT_EQ(connecting->poll(), nullptr);
        ASSERT_EQ(listener->accept(), nullptr);
        test::wait_on(*connecting, *listener);
      } catch (const Error& error) {
        what = error.what();
      }
    }
    expect_in(what, "rdma connection to host right");
  }
}

TEST_F(Verbs, TrafficThatTheNetworkSwallowsEndsOnTcpToo) {
  auto both = with_ethernet();
  const std::string nic = rdma_hosts()[0].nics[0].name;
  swallow_roce(nic);
  {
    Router left(both[0]), right(both[1]);
    auto listener = right.listen();
    auto pair = test::connect_pair(left, *listener);
    ASSERT_TRUE(pair.first);
    EXPECT_EQ(pair.first->route().transport, "tcp");
    expect_in(pair.first->route().reason, "rdma was tried first");
    expect_in(pair.first->route().reason, "test write");
  }
  deliver_all(nic);
}

}  // namespace
}  // namespace tombolo::transport
