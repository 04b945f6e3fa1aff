#include "probe/analyse/shared_links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "base/format.h"
#include "base/randomized_test.h"

namespace tombolo::probe {
namespace {

TEST(SharedRate, IsFoundWhereTwoPairsHalveEachOther) {
  EXPECT_EQ(shared_rate({{1e8, 1e8}, {5.1e7, 5e7}}), 1e8);
}

TEST(SharedRate, IsNoneWhereEachAttainsItsOwn) {
  EXPECT_FALSE(shared_rate({{1e8, 1e8, 1e8}, {1e8, 1e8, 1e8}}));
  EXPECT_FALSE(shared_rate({{1e8, 1e8, 1e8}, {9e7, 8e7, 7e7}})) << "noise of a busy machine";
  EXPECT_FALSE(shared_rate({{1e8}, {4e7}})) << "a single pair shares with no other";
  EXPECT_FALSE(shared_rate({{1e8, 1e8}, {0, 0}})) << "nothing was measured";
  EXPECT_FALSE(shared_rate({{0, 1e8}, {1e7, 1e7}}));
  EXPECT_FALSE(shared_rate({{1e8, 1e8}, {3e7, 3e7}})) << "less than one alone: the hosts had no time";
}

TEST(SharedRate, IsThatOfAllWhereOneCannotFillTheLink) {
  EXPECT_EQ(shared_rate({{1e8, 1e8, 1e8, 1e8}, {6e7, 6e7, 6e7, 6e7}}), 2.4e8);
}

TEST(SharedRate, ExpectsNoMoreOfAPairThanItAttainsAlone) {
  EXPECT_FALSE(shared_rate({{1e9, 1e8, 1e8}, {1e9, 1e8, 1e8}}));
  EXPECT_TRUE(shared_rate({{1e9, 1e8, 1e8}, {7e8, 5e7, 5e7}}));
}

// Max-min shares of a link of a random speed, with noise: found where, and only where, it is the bottleneck.
TEST(SharedRate, IsFoundInRandomNetworks) {
  std::mt19937 random(test_seed());
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution(low, high)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    const int pairs = 2 + static_cast<int>(between(0, 14));
    const double nic = 1e8;
    const bool shared = between(0, 1) < 0.5;
    // Between 0.6 and 1 of what the NICs carry together, noise decides.
    const double uplink = nic * pairs * (shared ? between(0.05, 0.6) : between(1, 3));
    const double noise = 0.1;
    LoadSample sample;
    for (int i = 0; i < pairs; ++i)
      sample.together.push_back(std::min(nic, uplink / pairs) * between(1 - noise, 1 + noise));
    // An uplink narrower than one NIC halves also what is measured alone.
    sample.alone.assign(sample.together.size(), std::min(nic, uplink) * between(1 - noise, 1 + noise));
    const auto rate = shared_rate(sample);
    ASSERT_EQ(rate.has_value(), shared) << pairs << " pairs, uplink " << uplink;
    if (rate) {
      EXPECT_NEAR(*rate / uplink, 1, 0.35);
    }
  }
}

/// Hosts "h0", ... with NICs "n0", "n1", "n2" on fabrics of these names.
std::vector<topology::Host> with_three_nics(std::size_t count) {
  std::vector<topology::Host> hosts(count);
  for (std::size_t h = 0; h < count; ++h) {
    hosts[h].name = fmt::format("h{}", h);
    for (const char* name : {"n0", "n1", "n2"}) {
      topology::Nic nic;
      nic.name = nic.fabric = name;
      hosts[h].nics.push_back(nic);
    }
  }
  return hosts;
}

/// All three NICs from one host to the other; alone each attains 100.
PortSample port_sample(std::size_t from, std::size_t to, std::vector<double> together) {
  return {from, to, {0, 1, 2}, {0, 1, 2}, {{100, 100, 100}, std::move(together)}};
}

TEST(SharedPorts, AreOfTheHostThatLosesSpeedWithEveryOther) {
  // h1's first two NICs leave by one port; no other host's do.
  const std::vector<PortSample> samples{port_sample(0, 1, {98, 99, 97}), port_sample(1, 0, {52, 50, 99}),
                                        port_sample(1, 2, {49, 51, 98}), port_sample(2, 1, {99, 98, 100}),
                                        port_sample(2, 0, {97, 99, 99}), port_sample(0, 2, {99, 99, 98})};
  const auto found = find_shared_ports(with_three_nics(3), samples);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "h1 n0+n1 out");
  EXPECT_EQ(found[0].from, (std::vector<topology::NicName>{{"h1", "n0"}, {"h1", "n1"}}));
  EXPECT_EQ(found[0].to,
            (std::vector<topology::NicName>{{"h0", "n0"}, {"h0", "n1"}, {"h2", "n0"}, {"h2", "n1"}}));
  EXPECT_EQ(found[0].bytes_per_second, 100);
}

TEST(SharedPorts, AreFoundWhereOneOfTwoStreamsKeepsNearlyAll) {
  const auto two = [](std::size_t from, std::size_t to, std::vector<double> together) {
    return PortSample{from, to, {0, 1}, {0, 1}, {{100, 100}, std::move(together)}};
  };
  const std::vector<PortSample> samples{two(0, 1, {96, 99}), two(1, 0, {90, 12}), two(1, 2, {8, 91}),
                                        two(2, 1, {99, 97}), two(0, 2, {98, 99}), two(2, 0, {97, 99})};
  const auto found = find_shared_ports(with_three_nics(3), samples);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "h1 n0+n1 out");
}

TEST(SharedPorts, AreNotToldByANicThatIsMuchSlower) {
  // The fast NIC lost speed to a busy processor; what the slow one could have taken is far less.
  const auto two = [](std::size_t from, std::size_t to) {
    return PortSample{from, to, {0, 1}, {0, 1}, {{3000, 95}, {2300, 80}}};
  };
  EXPECT_TRUE(find_shared_ports(with_three_nics(2), {two(0, 1), two(1, 0)}).empty());
}

TEST(SharedPorts, AreOfTheReceiverWhereWhatComesIsLost) {
  const std::vector<PortSample> samples{port_sample(0, 1, {50, 50, 98}), port_sample(2, 1, {50, 50, 98}),
                                        port_sample(0, 2, {98, 98, 98}), port_sample(1, 0, {98, 98, 98}),
                                        port_sample(1, 2, {98, 98, 98}), port_sample(2, 0, {98, 98, 98})};
  const auto found = find_shared_ports(with_three_nics(3), samples);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "h1 n0+n1 in");
  EXPECT_EQ(found[0].to, (std::vector<topology::NicName>{{"h1", "n0"}, {"h1", "n1"}}));
  EXPECT_EQ(found[0].from.size(), 4U);
}

TEST(SharedPorts, AreBetweenTheTwoWhereOnlyTwoWereMeasured) {
  const auto found = find_shared_ports(with_three_nics(2),
                                       {port_sample(0, 1, {55, 50, 95}), port_sample(1, 0, {99, 98, 97})});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "h0 n0+n1 to h1 n0+n1");
  EXPECT_EQ(found[0].to, (std::vector<topology::NicName>{{"h1", "n0"}, {"h1", "n1"}}));
}

TEST(SharedPorts, AreNoneWhereOneNicAloneLosesSpeedOrOneMeetingWasDisturbed) {
  EXPECT_TRUE(find_shared_ports(with_three_nics(2), {port_sample(0, 1, {30, 98, 97})}).empty());
  EXPECT_TRUE(
      find_shared_ports(with_three_nics(3), {port_sample(1, 0, {52, 50, 99}), port_sample(1, 2, {97, 98, 98}),
                                             port_sample(2, 0, {97, 98, 98})})
          .empty());
  EXPECT_TRUE(find_shared_ports(with_three_nics(2), {}).empty());
}

TEST(SharedLinks, RaiseWhatWasMeasuredWhileOthersUsedThem) {
  const topology::SharedLink shared{
      "A to B", {{"a0", "eth0"}, {"a1", "eth0"}}, {{"b0", "eth0"}, {"b1", "eth0"}}, 1e8};
  std::vector<topology::Link> links{
      {"a0", "eth0", "b0", "eth0", 5e7, 0, true}, {"a0", "eth0", "a1", "eth0", 1e9, 0, true},
      {"b0", "eth0", "a0", "eth0", 4e7, 0, true}, {"a1", "eth0", "b1", "eth0", 5e7, 0, true},
      {"b0", "eth0", "b1", "eth0", 6e7, 0, true}, {"a0", "ib0", "b0", "ib0", 3e7, 0, true}};
  raise_to_alone(links, shared, 1e8);
  EXPECT_EQ(links[0].bytes_per_second, 1e8);
  EXPECT_EQ(links[1].bytes_per_second, 1e9);
  EXPECT_EQ(links[2].bytes_per_second, 4e7) << "the other direction";
  EXPECT_EQ(links[3].bytes_per_second, 6e7) << "b1 attains no more inside its cluster either";
  EXPECT_EQ(links[5].bytes_per_second, 3e7) << "other NICs";
}

}  // namespace
}  // namespace tombolo::probe
