#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "transport/routing/router.h"

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
    Choice choice = choose(local, peer, policy).front();
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
  Choice choice = choose(ib_host("a1", 1), ib_host("a2", 2), {}).front();
  EXPECT_EQ(choice.local, 0u);
  EXPECT_EQ(choice.peer, 0u);
  expect_in(choice.reason, "infiniband");
}

TEST(Choose, FallsBackToTcpBetweenClustersAndSaysWhy) {
  Choice choice = choose(ib_host("a1", 1), roce_host("b1", 1), {}).front();
  EXPECT_EQ(choice.local, 1u);
  EXPECT_EQ(choice.peer, 1u);
  expect_in(choice.reason, "fast0 (infiniband, emulated) -> fast0 (roce, emulated): different fabrics");
}

TEST(Choose, FabricsOfOneKindThatDifferAreKeptApart) {
  Endpoint peer = ib_host("a2", 2);
  peer.offers[0].fabric = fabric_hash("ib-c");
  EXPECT_EQ(choose(ib_host("a1", 1), peer, {}).front().local, 1u);
}

TEST(Choose, OneKindOnlyAsOneCommunicatorMust) {
  Policy policy;
  policy.only_kind = NicKind::kTcp;
  Choice choice = choose(ib_host("a1", 1), ib_host("a2", 2), policy).front();
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
  EXPECT_EQ(choose(ib_host("a1", 1), roce_host("b1", 1), policy).front().local, 1u);
  EXPECT_EQ(choose(ib_host("a1", 1), ib_host("a2", 2), policy).front().local, 0u);
}

TEST(Choose, DeclaredUnreachableFabricsAreNotUsed) {
  Policy policy;
  policy.unreachable = {{"ib-a", "ib-a"}};
  Choice choice = choose(ib_host("a1", 1), ib_host("a2", 2), policy).front();
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
  Choice choice = choose(local, peer, {}).front();
  EXPECT_EQ(choice.local, 1u);
  EXPECT_EQ(choice.peer, 0u);
}

/// A host with a real RDMA NIC that verbs can use, and an Ethernet one.
Endpoint verbs_host(const std::string& name, int number, NicKind kind = NicKind::kRoce,
                    const std::string& fabric = "fast") {
  Endpoint endpoint = host(name, "A",
                           {offer("rdma0", kind, fabric, fmt::format("10.1.0.{}", number), 200, false),
                            offer("eth0", NicKind::kTcp, "", fmt::format("10.0.0.{}", number), 200)});
  endpoint.offers[0].rdma = true;
  return endpoint;
}

TEST(Choose, RdmaIsTakenWhereBothEndsHaveItAndTcpStandsBy) {
  for (NicKind kind : {NicKind::kRoce, NicKind::kInfiniBand}) {
    auto choices = choose(verbs_host("a1", 1, kind), verbs_host("a2", 2, kind), {});
    ASSERT_EQ(choices.size(), 2u);
    EXPECT_EQ(choices[0].carrier, Carrier::kRdma);
    EXPECT_EQ(choices[0].kind, kind);
    EXPECT_EQ(choices[0].local, 0u);
    EXPECT_EQ(choices[0].channel_local, 0u) << "the ends agree over the NIC itself";
    EXPECT_TRUE(choices[0].more.empty());
    EXPECT_EQ(choices[1].carrier, Carrier::kTcp);
  }
}

TEST(Choose, WithoutVerbsAnRdmaNicIsAnIpInterfaceAndTheReasonSaysWhy) {
  Endpoint left = verbs_host("a1", 1), right = verbs_host("a2", 2);
  left.offers[0].rdma = false;
  left.offers[0].rdma_problem = "libibverbs cannot be loaded";
  // At equal rates the plain one.
  Choice choice = choose(left, right, {}).front();
  EXPECT_EQ(choice.local, 1u);
  EXPECT_EQ(choice.carrier, Carrier::kTcp);
  expect_in(choice.reason, "rdma0 (roce) -> rdma0 (roce): no rdma here: libibverbs cannot be loaded");
  choice = choose(right, left, {}).front();
  expect_in(choice.reason, "the peer has no rdma on its NIC");
  left.offers[1].rate_bits_per_second = kGigabit;
  Policy policy;
  policy.require_rdma = true;
  expect_in(refusal(left, right, policy), "no rdma here: libibverbs cannot be loaded");
}

TEST(Choose, RequiringRdmaLeavesNoFallbackToTcp) {
  Policy policy;
  policy.require_rdma = true;
  auto choices = choose(verbs_host("a1", 1), verbs_host("a2", 2), policy);
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].carrier, Carrier::kRdma);
}

TEST(Choose, EndsThatCannotTalkRdmaAreRecognisedBeforeAnyTry) {
  Choice choice =
      choose(verbs_host("a1", 1, NicKind::kRoce), verbs_host("a2", 2, NicKind::kInfiniBand, "other"), {})
          .front();
  EXPECT_EQ(choice.carrier, Carrier::kTcp);
  expect_in(choice.reason, "different fabrics");
  // The subnet prefix is part of an InfiniBand fabric's name.
  choice = choose(verbs_host("a1", 1, NicKind::kInfiniBand, "infiniband-fe80:0000:0000:0000"),
                  verbs_host("a2", 2, NicKind::kInfiniBand, "infiniband-fec0:0000:0000:0001"), {})
               .front();
  EXPECT_EQ(choice.carrier, Carrier::kTcp);
  expect_in(choice.reason, "rdma0 (infiniband) -> rdma0 (infiniband): different fabrics");
}

TEST(Choose, TheEnvironmentCanForbidRdmaOrAllElse) {
  Policy policy;
  policy.transports = {"tcp"};
  Choice choice = choose(verbs_host("a1", 1), verbs_host("a2", 2), policy).front();
  EXPECT_EQ(choice.carrier, Carrier::kTcp);
  expect_in(choice.reason, "TOMBOLO_TRANSPORTS does not allow rdma");
  policy.transports = {"rdma"};
  auto choices = choose(verbs_host("a1", 1), verbs_host("a2", 2), policy);
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].carrier, Carrier::kRdma);
}

/// A host with a real RDMA NIC whose process can use UCX.
Endpoint ucx_host(const std::string& name, int number, bool verbs) {
  Endpoint endpoint = verbs_host(name, number, NicKind::kInfiniBand);
  endpoint.carriers |= 1U << static_cast<int>(Carrier::kUcx);
  endpoint.offers[0].rdma = verbs;
  if (!verbs) endpoint.offers[0].rdma_problem = "no GID";
  return endpoint;
}

TEST(Choose, UcxIsTakenForRdmaNicsThatVerbsCannotUse) {
  auto choices = choose(ucx_host("a1", 1, false), ucx_host("a2", 2, true), {});
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0].carrier, Carrier::kUcx);
  EXPECT_EQ(choices[0].kind, NicKind::kInfiniBand);
  EXPECT_EQ(choices[0].local, 0u);
  expect_in(choices[0].reason, "both on one infiniband fabric; not taken");
  expect_in(choices[0].reason, "no rdma here: no GID");
  EXPECT_EQ(choices[1].carrier, Carrier::kTcp);
  // Where both can, verbs go first, and UCX stands by if it was asked for.
  Policy policy;
  choices = choose(ucx_host("a1", 1, true), ucx_host("a2", 2, true), policy);
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0].carrier, Carrier::kRdma);
  EXPECT_EQ(choices[1].carrier, Carrier::kTcp);
  policy.transports = {"tcp", "ucx", "rdma"};
  choices = choose(ucx_host("a1", 1, true), ucx_host("a2", 2, true), policy);
  ASSERT_EQ(choices.size(), 3u);
  EXPECT_EQ(choices[0].carrier, Carrier::kRdma);
  EXPECT_EQ(choices[1].carrier, Carrier::kUcx);
  EXPECT_EQ(choices[2].carrier, Carrier::kTcp);
  // It is RDMA too.
  policy = {};
  policy.require_rdma = true;
  choices = choose(ucx_host("a1", 1, false), ucx_host("a2", 2, false), policy);
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].carrier, Carrier::kUcx);
  // One end alone cannot.
  choices = choose(ucx_host("a1", 1, false), verbs_host("a2", 2, NicKind::kInfiniBand), {});
  EXPECT_EQ(choices.front().carrier, Carrier::kTcp);
}

TEST(Choose, UcxGoesOverPlainNicsOnlyWhereTcpMayNot) {
  auto make = [](const std::string& name, int number) {
    Endpoint endpoint =
        host(name, "A", {offer("eth0", NicKind::kTcp, "", fmt::format("10.0.0.{}", number), 100)});
    endpoint.carriers |= 1U << static_cast<int>(Carrier::kUcx);
    return endpoint;
  };
  Policy policy;
  for (const std::vector<std::string>& transports :
       {std::vector<std::string>{}, std::vector<std::string>{"tcp", "ucx"}}) {
    policy.transports = transports;
    auto choices = choose(make("a1", 1), make("a2", 2), policy);
    ASSERT_EQ(choices.size(), 1u);
    EXPECT_EQ(choices[0].carrier, Carrier::kTcp);
  }
  policy.transports = {"ucx", "shm"};
  auto choices = choose(make("a1", 1), make("a2", 2), policy);
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].carrier, Carrier::kUcx);
  EXPECT_EQ(choices[0].reason, "TOMBOLO_TRANSPORTS names ucx, and not tcp");
  Endpoint without = make("a2", 2);
  without.carriers = 1;
  expect_in(refusal(make("a1", 1), without, policy), "the peer cannot use ucx (its log says why)");
  expect_in(refusal(without, make("a1", 1), policy), "this process cannot use ucx (its log says why)");
}

TEST(Choose, ACarrierWithoutRulesOfItsOwnGoesWhereTcpCanAndIsPreferredToIt) {
  constexpr Carrier kOther{5};
  auto with_other = [&](Endpoint endpoint) {
    endpoint.carriers |= 1U << static_cast<int>(kOther);
    return endpoint;
  };
  auto plain = [](const std::string& name, int number) {
    return host(name, "A", {offer("eth0", NicKind::kTcp, "", fmt::format("10.0.0.{}", number), 100)});
  };
  auto choices = choose(with_other(plain("a1", 1)), with_other(plain("a2", 2)), {});
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0].carrier, kOther);
  EXPECT_EQ(choices[0].reason, "carrier 5 is the best that both share");
  EXPECT_EQ(choices[1].carrier, Carrier::kTcp);
  EXPECT_EQ(choose(with_other(plain("a1", 1)), plain("a2", 2), {}).front().carrier, Carrier::kTcp);
  EXPECT_EQ(choose(plain("a1", 1), with_other(plain("a2", 2)), {}).front().carrier, Carrier::kTcp);
  Policy policy;
  policy.transports = {"tcp"};
  EXPECT_EQ(choose(with_other(plain("a1", 1)), with_other(plain("a2", 2)), policy).front().carrier,
            Carrier::kTcp);
  // Between real RDMA NICs verbs go first.
  choices = choose(with_other(verbs_host("a1", 1, NicKind::kInfiniBand)),
                   with_other(verbs_host("a2", 2, NicKind::kInfiniBand)), {});
  ASSERT_EQ(choices.size(), 3u);
  EXPECT_EQ(choices[0].carrier, Carrier::kRdma);
  EXPECT_EQ(choices[1].carrier, kOther);
  EXPECT_EQ(choices[2].carrier, Carrier::kTcp);
}

TEST(Choose, WhereTheKernelHasNoWayToTheRdmaNicTheEndsAgreeOverAnotherPair) {
  auto only_ethernet = [](const Offer& local, const Offer& peer) {
    return local.nic == "eth0" && peer.nic == "eth0";
  };
  Choice choice = choose(verbs_host("a1", 1), verbs_host("a2", 2), {}, only_ethernet).front();
  EXPECT_EQ(choice.carrier, Carrier::kRdma);
  EXPECT_EQ(choice.local, 0u);
  EXPECT_EQ(choice.channel_local, 1u);
  EXPECT_EQ(choice.channel_peer, 1u);
}

TEST(Choose, RdmaNicsCarryAConnectionTogetherUnlessOneIsFarSlower) {
  auto make = [](const std::string& name, int number) {
    Endpoint endpoint = host(name, "A", {});
    const std::array rates{200, 200, 100, 10};
    for (int nic = 0; nic < 4; ++nic) {
      endpoint.offers.push_back(offer(fmt::format("rdma{}", nic), NicKind::kRoce, "fast",
                                      fmt::format("10.{}.0.{}", nic, number),
                                      rates[static_cast<std::size_t>(nic)], false));
      endpoint.offers.back().rdma = true;
    }
    return endpoint;
  };
  // Each rail reaches its like.
  auto same_rail = [](const Offer& local, const Offer& peer) { return local.nic == peer.nic; };
  Choice choice = choose(make("a1", 1), make("a2", 2), {}, same_rail).front();
  EXPECT_EQ(choice.carrier, Carrier::kRdma);
  EXPECT_EQ(choice.local, 0u);
  EXPECT_EQ(choice.peer, 0u);
  ASSERT_EQ(choice.more.size(), 2u) << "the fourth would add little";
  EXPECT_EQ(choice.more[0], std::pair(std::size_t{1}, std::size_t{1}));
  EXPECT_EQ(choice.more[1], std::pair(std::size_t{2}, std::size_t{2}));
}

TEST(Choose, LoopbackComesFirstInsideOneHost) {
  auto fabric = "loopback x";
  auto make = [&](const std::string& name) {
    Endpoint endpoint = ib_host(name, 1);
    endpoint.offers.push_back(offer("lo", NicKind::kTcp, fabric, "127.0.0.1", 0));
    return endpoint;
  };
  Choice choice = choose(make("a1"), make("a1"), {}).front();
  EXPECT_EQ(choice.local, 2u);
  EXPECT_TRUE(
      choice.reason.starts_with("same host; not taken: lo (tcp) -> lo (tcp): this process cannot use shm"))
      << choice.reason;
  Endpoint other = make("a2");
  EXPECT_EQ(choose(make("a1"), other, {}).front().local, 0u);
}

TEST(Choose, SharedMemoryComesBeforeTcpInsideOneHostWhereBothCanUseIt) {
  auto make = [&](bool can) {
    Endpoint endpoint = host("a1", "A", {offer("lo", NicKind::kTcp, "loopback x", "127.0.0.1", 0)});
    if (can) endpoint.carriers |= 1 << static_cast<int>(Carrier::kShm);
    return endpoint;
  };
  auto choices = choose(make(true), make(true), {});
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0].carrier, Carrier::kShm);
  EXPECT_EQ(choices[1].carrier, Carrier::kTcp);
  choices = choose(make(true), make(false), {});
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].carrier, Carrier::kTcp);
  EXPECT_NE(choices[0].reason.find("the peer cannot use shm"), std::string::npos) << choices[0].reason;
  Policy policy;
  policy.transports = {"shm"};
  EXPECT_EQ(choose(make(true), make(true), policy).size(), 1u);
  expect_in(refusal(make(true), make(false), policy), "TOMBOLO_TRANSPORTS does not allow tcp");
}

TEST(Choose, ANicByWhichTheKernelWouldSendComesBeforeAFasterOne) {
  Endpoint local = host(
      "x", "A",
      {offer("eth1", NicKind::kTcp, "", "10.0.0.1", 25), offer("eth0", NicKind::kTcp, "", "192.168.0.1", 1)});
  Endpoint peer = host("y", "A", {offer("eth0", NicKind::kTcp, "", "192.168.0.2", 25)});
  auto by = [](const Offer& from, const Offer&) { return from.nic == "eth0"; };
  Choice choice = choose(local, peer, {}, by).front();
  EXPECT_EQ(choice.local, 1u);
  EXPECT_NE(choice.reason.find("leaves by another NIC"), std::string::npos) << choice.reason;
}

TEST(SharedKind, IsTheBestOfWhichEverybodyHasOneOnTheSameFabric) {
  auto with = [](std::vector<Offer> offers) { return host("x", "A", std::move(offers)); };
  const Offer ib_a = offer("ib0", NicKind::kInfiniBand, "ib-A", "10.1.0.1", 200);
  const Offer ib_b = offer("ib0", NicKind::kInfiniBand, "ib-B", "10.2.0.1", 200);
  const Offer tcp = offer("eth0", NicKind::kTcp, "", "192.168.0.1", 10);
  EXPECT_EQ(shared_kind(std::vector{with({ib_a, tcp}), with({tcp, ib_a})}), NicKind::kInfiniBand);
  EXPECT_EQ(shared_kind(std::vector{with({ib_a, tcp}), with({ib_b, tcp})}), NicKind::kTcp);
  EXPECT_EQ(shared_kind(std::vector{with({ib_a}), with({ib_b})}), std::nullopt);
  EXPECT_EQ(shared_kind({}), std::nullopt);
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

/// A host of rails, each a fabric of its own or all one, and an Ethernet NIC or two; the device is that of
/// one rail, by which the other NICs stand.
Endpoint railed(const std::string& name, int number, std::size_t rail, bool one_fabric, int ethernet = 1) {
  std::vector<Offer> offers;
  for (int i = 0; i < 3; ++i) {
    offers.push_back(offer(fmt::format("ib{}", i), NicKind::kInfiniBand,
                           one_fabric ? "ib" : fmt::format("rail{}", i), fmt::format("10.1.{}.{}", i, number),
                           200));
  }
  for (int i = 0; i < ethernet; ++i)
    offers.push_back(
        offer(fmt::format("eth{}", i), NicKind::kTcp, "", fmt::format("10.0.{}.{}", i, number), 25));
  for (std::size_t i = 0; i < offers.size(); ++i) offers[i].standby = i != rail;
  std::ranges::stable_sort(offers, {}, &Offer::standby);
  return host(name, "A", std::move(offers));
}

TEST(ChooseStandby, ADevicesOwnNicIsTakenAndNoneBesideIt) {
  for (std::size_t rail = 0; rail < 3; ++rail) {
    const Endpoint local = railed("a1", 1, rail, false), peer = railed("a2", 2, rail, false);
    const Choice choice = choose(local, peer, {}).front();
    EXPECT_EQ(local.offers[choice.local].nic, fmt::format("ib{}", rail));
    EXPECT_EQ(peer.offers[choice.peer].nic, fmt::format("ib{}", rail));
    EXPECT_TRUE(choice.more.empty()) << "the neighbours' NICs are other devices'";
  }
}

TEST(ChooseStandby, OwnNicsOfUnlikeRailsMeetWhereTheFabricIsOne) {
  const Endpoint local = railed("a1", 1, 0, true), peer = railed("a2", 2, 2, true);
  const Choice choice = choose(local, peer, {}).front();
  EXPECT_EQ(local.offers[choice.local].nic, "ib0");
  EXPECT_EQ(peer.offers[choice.peer].nic, "ib2");
  EXPECT_TRUE(choice.more.empty());
}

TEST(ChooseStandby, AcrossRailsAStandbyCarriesByRdmaRatherThanTcp) {
  const Endpoint local = railed("a1", 1, 0, false), peer = railed("a2", 2, 2, false);
  const Choice choice = choose(local, peer, {}).front();
  EXPECT_EQ(choice.kind, NicKind::kInfiniBand);
  EXPECT_EQ(local.offers[choice.local].nic, peer.offers[choice.peer].nic);
  EXPECT_NE(local.offers[choice.local].nic, "ib1") << "one of the two is its device's own";
  EXPECT_TRUE(choice.more.empty());
}

TEST(ChooseStandby, WhereRdmaReachesNothingAllEthernetThatStandsByCarriesTogether) {
  Endpoint local = railed("a1", 1, 0, false, 2), peer = railed("a2", 2, 0, false, 2);
  std::erase_if(peer.offers, [](const Offer& one) { return one.kind != NicKind::kTcp; });
  const Choice choice = choose(local, peer, {}).front();
  EXPECT_EQ(choice.kind, NicKind::kTcp);
  EXPECT_EQ(choice.more.size(), 1U);
}

}  // namespace
}  // namespace tombolo::transport
