#include <gtest/gtest.h>

#include "base/error.h"
#include "transport/router.h"

namespace tombolo::transport {
namespace {

using topology::NicKind;

constexpr std::uint64_t kGigabit = 1'000'000'000;

Offer offer(const std::string& nic, NicKind kind, const std::string& fabric, const std::string& address,
            std::uint64_t gigabits, bool emulated = true) {
  return {
      nic, kind, fabric_hash(fabric), address, 1000, gigabits * kGigabit, emulated && kind != NicKind::kTcp};
}

Endpoint host(const std::string& name, const std::string& cluster, std::vector<Offer> offers) {
  Endpoint endpoint;
  endpoint.host = name;
  endpoint.cluster = cluster;
  endpoint.offers = std::move(offers);
  endpoint.set_ids();
  return endpoint;
}

Endpoint ib_host(const std::string& name, int number) {
  return host(name, "A",
              {offer("fast0", NicKind::kInfiniBand, "ib-a", fmt::format("10.1.0.{}", number), 200),
               offer("eth0", NicKind::kTcp, "", fmt::format("10.0.0.{}", number), 25)});
}

Endpoint roce_host(const std::string& name, int number) {
  return host(name, "B",
              {offer("fast0", NicKind::kRoce, "roce-b", fmt::format("10.2.0.{}", number), 100),
               offer("eth0", NicKind::kTcp, "", fmt::format("10.0.1.{}", number), 25)});
}

std::string refusal(const Endpoint& local, const Endpoint& peer, const Policy& policy) {
  try {
    Choice choice = choose(local, peer, policy);
    return "chose " + local.offers[choice.local].nic + ": " + choice.reason;
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kUnsupported);
    return error.what();
  }
}

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Choose, TakesTheBestKindInsideACluster) {
  Choice choice = choose(ib_host("a1", 1), ib_host("a2", 2), {});
  EXPECT_EQ(choice.local, 0u);
  EXPECT_EQ(choice.peer, 0u);
  expect_in(choice.reason, "infiniband");
}

TEST(Choose, FallsBackToTcpBetweenClustersAndSaysWhy) {
  Choice choice = choose(ib_host("a1", 1), roce_host("b1", 1), {});
  EXPECT_EQ(choice.local, 1u);
  EXPECT_EQ(choice.peer, 1u);
  expect_in(choice.reason, "fast0 (infiniband, emulated) -> fast0 (roce, emulated): different fabrics");
}

TEST(Choose, FabricsOfOneKindThatDifferAreKeptApart) {
  Endpoint peer = ib_host("a2", 2);
  peer.offers[0].fabric = fabric_hash("ib-c");
  EXPECT_EQ(choose(ib_host("a1", 1), peer, {}).local, 1u);
}

TEST(Choose, OneKindOnlyAsOneCommunicatorMust) {
  Policy policy;
  policy.only_kind = NicKind::kTcp;
  Choice choice = choose(ib_host("a1", 1), ib_host("a2", 2), policy);
  EXPECT_EQ(choice.local, 1u);
  expect_in(choice.reason, "only tcp may be used");
  policy.only_kind = NicKind::kInfiniBand;
  expect_in(refusal(ib_host("a1", 1), roce_host("b1", 1), policy), "only infiniband may be used");
}

TEST(Choose, RequiringRdmaForbidsTheFallbackInsideAClusterOnly) {
  Policy policy;
  policy.require_rdma = true;
  Endpoint without = host("a2", "A", {offer("eth0", NicKind::kTcp, "", "10.0.0.2", 25)});
  expect_in(refusal(ib_host("a1", 1), without, policy), "inside a cluster rdma is required");
  EXPECT_EQ(choose(ib_host("a1", 1), roce_host("b1", 1), policy).local, 1u);
  EXPECT_EQ(choose(ib_host("a1", 1), ib_host("a2", 2), policy).local, 0u);
}

TEST(Choose, DeclaredUnreachableFabricsAreNotUsed) {
  Policy policy;
  policy.unreachable = {{"ib-a", "ib-a"}};
  Choice choice = choose(ib_host("a1", 1), ib_host("a2", 2), policy);
  EXPECT_EQ(choice.local, 1u);
  expect_in(choice.reason, "declared unreachable");
}

TEST(Choose, TheLowerRateOfAPairCounts) {
  Endpoint local = host(
      "a1", "A",
      {offer("eth0", NicKind::kTcp, "", "10.0.0.1", 10), offer("eth1", NicKind::kTcp, "", "10.0.0.2", 100)});
  Endpoint peer = host(
      "a2", "A",
      {offer("eth0", NicKind::kTcp, "", "10.0.0.3", 40), offer("eth1", NicKind::kTcp, "", "10.0.0.4", 25)});
  Choice choice = choose(local, peer, {});
  EXPECT_EQ(choice.local, 1u);
  EXPECT_EQ(choice.peer, 0u);
}

TEST(Choose, RealRdmaNicsAreUsedAsIpInterfacesUntilThereIsARdmaTransport) {
  auto make = [](const std::string& name, int number) {
    return host(name, "A",
                {offer("ib0", NicKind::kInfiniBand, "", fmt::format("10.1.0.{}", number), 200, false),
                 offer("eth0", NicKind::kTcp, "", fmt::format("10.0.0.{}", number), 200)});
  };
  // At equal rates the plain one.
  Choice choice = choose(make("a1", 1), make("a2", 2), {});
  EXPECT_EQ(choice.local, 1u);
  expect_in(choice.reason, "ib0 (infiniband) -> ib0 (infiniband): no rdma transport in this build");
  Endpoint left = make("a1", 1), right = make("a2", 2);
  left.offers[1].rate_bits_per_second = kGigabit;
  choice = choose(left, right, {});
  EXPECT_EQ(choice.local, 0u);
  expect_in(choice.reason, "no rdma transport in this build");
  Policy policy;
  policy.require_rdma = true;
  expect_in(refusal(left, right, policy), "no rdma transport in this build");
}

TEST(Choose, LoopbackComesFirstInsideOneHost) {
  auto fabric = "loopback x";
  auto make = [&](const std::string& name) {
    Endpoint endpoint = ib_host(name, 1);
    endpoint.offers.push_back(offer("lo", NicKind::kTcp, fabric, "127.0.0.1", 0));
    return endpoint;
  };
  Choice choice = choose(make("a1"), make("a1"), {});
  EXPECT_EQ(choice.local, 2u);
  EXPECT_EQ(choice.reason, "same host");
  Endpoint other = make("a2");
  EXPECT_EQ(choose(make("a1"), other, {}).local, 0u);
}

TEST(Choose, LoopbackAndOtherAddressesDoNotMix) {
  Endpoint local = host("a1", "A", {offer("lo", NicKind::kTcp, "", "127.0.0.1", 0)});
  Endpoint peer = host("a2", "A", {offer("eth0", NicKind::kTcp, "", "10.0.0.1", 10)});
  expect_in(refusal(local, peer, {}), "only one is a loopback address");
  peer.offers[0].address = "fd00::1";
  expect_in(refusal(local, peer, {}), "IPv4");
}

TEST(Choose, TransportsThatAreNotAllowedAreRefused) {
  Policy policy;
  policy.transports = {"verbs"};
  expect_in(refusal(ib_host("a1", 1), ib_host("a2", 2), policy), "does not allow tcp");
}

TEST(Choose, NothingToChooseFromSaysSo) {
  expect_in(refusal(host("a1", "A", {}), ib_host("a2", 2), {}), "0 NICs with an address here, 2 there");
}

}  // namespace
}  // namespace tombolo::transport
