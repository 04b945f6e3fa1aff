#include "transport/endpoint.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/randomized_test.h"

namespace tombolo::transport {
namespace {

Endpoint example() {
  Endpoint endpoint;
  endpoint.process = 0x1122334455667788;
  endpoint.host = "node7";
  endpoint.cluster = "A";
  endpoint.offers = {
      {"fast0", topology::NicKind::kRoce, fabric_hash("roce-a"), "10.1.0.7", 4711, 200'000'000'000, true},
      {"eth0", topology::NicKind::kTcp, 0, "fd00::7", 4712, 25'000'000'000, false}};
  endpoint.offers[1].standby = true;
  endpoint.set_ids();
  return endpoint;
}

void expect_equal(const Offer& left, const Offer& right) {
  EXPECT_EQ(left.kind, right.kind);
  EXPECT_EQ(left.fabric, right.fabric);
  EXPECT_EQ(left.address, right.address);
  EXPECT_EQ(left.port, right.port);
  EXPECT_EQ(left.rate_bits_per_second, right.rate_bits_per_second);
  EXPECT_EQ(left.emulated, right.emulated);
  EXPECT_EQ(left.standby, right.standby);
}

TEST(Endpoint, SurvivesItsFullEncoding) {
  Endpoint before = example(), after = Endpoint::decode(before.encode());
  EXPECT_EQ(after.process, before.process);
  EXPECT_EQ(after.host, "node7");
  EXPECT_EQ(after.cluster, "A");
  ASSERT_EQ(after.offers.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    expect_equal(after.offers[i], before.offers[i]);
    EXPECT_EQ(after.offers[i].nic, before.offers[i].nic);
  }
}

TEST(Endpoint, ACompactOneKeepsWhoIsTheSameHostAndCluster) {
  Endpoint before = example(), after = Endpoint::decode(before.encode_compact(128));
  EXPECT_TRUE(after.host.empty());
  EXPECT_TRUE(same_host(after, before));
  EXPECT_TRUE(same_cluster(after, before));
  Endpoint other = example();
  other.host = "node8";
  other.cluster = "B";
  other.set_ids();
  EXPECT_FALSE(same_host(after, other));
  EXPECT_FALSE(same_cluster(after, other));
  ASSERT_EQ(after.offers.size(), 2u);
  for (int i = 0; i < 2; ++i) expect_equal(after.offers[i], before.offers[i]);
}

TEST(Endpoint, HostsWithoutANameAreNeverTheSame) {
  EXPECT_FALSE(same_host(Endpoint{}, Endpoint{}));
  EXPECT_TRUE(same_cluster(Endpoint{}, Endpoint{}));
}

TEST(Endpoint, ACompactOneDropsTheWorstOffersToFit) {
  Endpoint endpoint = example();
  for (int i = 0; i < 20; ++i) endpoint.offers.push_back(endpoint.offers[1]);
  auto bytes = endpoint.encode_compact(100);
  EXPECT_LE(bytes.size(), 100u);
  Endpoint decoded = Endpoint::decode(bytes);
  EXPECT_GE(decoded.offers.size(), 2u);
  expect_equal(decoded.offers[0], endpoint.offers[0]);
  try {
    endpoint.encode_compact(25);
    FAIL() << "one offer does not fit";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInternal);
  }
}

TEST(Endpoint, ACompactOneMayBePaddedWithZeros) {
  auto bytes = example().encode_compact(128);
  bytes.resize(128);
  EXPECT_EQ(Endpoint::decode(bytes).offers.size(), 2u);
}

TEST(Endpoint, HostileBytesOnlyEverThrowRemote) {
  std::mt19937_64 random(test_seed());
  auto full = example().encode(), compact = example().encode_compact(128);
  int decoded = 0, refused = 0;
  for (int i = 0; i < test_rounds(100'000); ++i) {
    std::vector<std::byte> bytes;
    if (i % 3 == 0) {
      bytes.resize(random() % 200);
      for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    } else {
      bytes = i % 3 == 1 ? full : compact;
      for (auto changes = random() % 5; changes > 0; --changes) {
        bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      }
      if (random() % 2 == 0) bytes.resize(random() % bytes.size());
    }
    try {
      Endpoint endpoint = Endpoint::decode(bytes);
      for (const auto& offer : endpoint.offers) ASSERT_LE(static_cast<int>(offer.kind), 3);
      ++decoded;
    } catch (const Error& error) {
      ASSERT_EQ(error.cause(), Cause::kRemote) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(decoded, 0);
  EXPECT_GT(refused, 0);
}

TEST(Endpoint, AnotherVersionIsNamed) {
  auto bytes = example().encode();
  bytes[2] = std::byte{9};
  try {
    Endpoint::decode(bytes);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("version 9"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tombolo::transport
