#include "probe/shared_links.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "base/format.h"

namespace tombolo::probe {
namespace {

LoadSample sample(double alone, std::vector<double> together, std::vector<double> nominal = {}) {
  LoadSample made;
  made.from_cluster = "A";
  made.to_cluster = "B";
  made.from = {{"a0", "eth0"}, {"a1", "eth0"}, {"a2", "eth0"}};
  made.to = {{"b0", "eth0"}, {"b1", "eth0"}};
  made.alone = alone;
  nominal.resize(together.size());
  made.together = std::move(together);
  made.nominal = std::move(nominal);
  return made;
}

TEST(SharedLink, IsWhatTwoPairsHalve) {
  const auto link = find_shared_link(sample(1e8, {5.1e7, 5e7}));
  ASSERT_TRUE(link);
  EXPECT_EQ(link->name, "A to B");
  EXPECT_EQ(link->from.size(), 3U) << "all that use it, not only those that were measured";
  EXPECT_EQ(link->to[1].host, "b1");
  EXPECT_EQ(link->bytes_per_second, 1e8);
  auto named = sample(1e8, {5e7, 5e7});
  named.fabric = "wan";
  EXPECT_EQ(find_shared_link(named)->name, "A to B by wan");
}

TEST(SharedLink, IsNotWhereEachAttainsItsOwn) {
  EXPECT_FALSE(find_shared_link(sample(1e8, {1e8, 1e8, 1e8})));
  EXPECT_FALSE(find_shared_link(sample(1e8, {9e7, 8e7, 7e7}))) << "noise of a busy machine";
  EXPECT_FALSE(find_shared_link(sample(1e8, {4e7}))) << "one pair shares with nobody";
  EXPECT_FALSE(find_shared_link(sample(1e8, {0, 0}))) << "nothing was measured";
  EXPECT_FALSE(find_shared_link(sample(0, {1e8, 1e8})));
}

TEST(SharedLink, HasTheSpeedOfAllWhereOneCannotFillIt) {
  const auto link = find_shared_link(sample(1e8, {6e7, 6.2e7, 5.8e7, 6e7}));
  ASSERT_TRUE(link);
  EXPECT_DOUBLE_EQ(link->bytes_per_second, 2.4e8);
}

TEST(SharedLink, ExpectsNoMoreOfAPairThanItsNicsCarry) {
  // The first pair has fast NICs, the other slow ones: that they attain less is no sign of sharing.
  EXPECT_FALSE(find_shared_link(sample(1e9, {1e9, 1e8, 1e8}, {1.25e9, 1.25e8, 1.25e8})));
  EXPECT_TRUE(find_shared_link(sample(1e9, {4e8, 4e7, 4e7}, {1.25e9, 1.25e8, 1.25e8})));
}

// Max-min shares of a link of a random speed, with noise: found where, and only where, it is the bottleneck.
TEST(SharedLink, IsFoundInRandomNetworks) {
  unsigned seed = std::random_device{}();
  if (const char* given = std::getenv("TOMBOLO_TEST_SEED"))
    seed = static_cast<unsigned>(std::strtoul(given, nullptr, 10));
  SCOPED_TRACE(fmt::format("TOMBOLO_TEST_SEED={}", seed));
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution(low, high)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    const int pairs = 2 + static_cast<int>(between(0, 14));
    const double nic = 1e8;
    const bool shared = between(0, 1) < 0.5;
    // Between 0.6 and 1 of what the NICs carry together nobody can tell from noise.
    const double uplink = nic * pairs * (shared ? between(0.05, 0.6) : between(1, 3));
    const double noise = 0.1;
    std::vector<double> together;
    for (int i = 0; i < pairs; ++i)
      together.push_back(std::min(nic, uplink / pairs) * between(1 - noise, 1 + noise));
    const double alone = std::min(nic, uplink) * between(1 - noise, 1 + noise);
    const auto link = find_shared_link(sample(alone, together));
    // An uplink narrower than one NIC halves also what is measured alone.
    ASSERT_EQ(link.has_value(), shared) << pairs << " pairs, uplink " << uplink;
    if (link) {
      EXPECT_NEAR(link->bytes_per_second / uplink, 1, 0.35);
    }
  }
}

}  // namespace
}  // namespace tombolo::probe
