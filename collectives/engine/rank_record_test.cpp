#include "collectives/engine/rank_record.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/randomized_test.h"

namespace tombolo::collectives {
namespace {

RankRecord example_record() {
  RankRecord one{"a0",
                 "east",
                 "0123456789abcdef",
                 {{"number of ranks", "4"}, {"TOMBOLO_SEGMENT", "65536"}},
                 {1234, 5, -1, 0xfedcba9876543210},
                 {},
                 {}};
  one.processors.set(0).set(17).set(1023);
  one.links = 0x0123456789abcdef;
  one.standby = {"10.0.0.1", 45678, {std::byte{7}}};
  one.keeps_store = true;
  one.endpoint.host = "a0";
  one.endpoint.offers = {{"eth0", topology::NicKind::kTcp, 0, "10.0.0.1", 4000, 10'000'000'000, false}};
  one.endpoint.set_ids();
  return one;
}

std::string record_refusal(std::span<const std::byte> bytes) {
  try {
    RankRecord::decode(bytes, 7);
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kRemote);
    return error.what();
  }
  return {};
}

TEST(RankRecord, ComesBackAsItWasWritten) {
  const RankRecord again = RankRecord::decode(example_record().encode(), 7);
  EXPECT_EQ(again.host, "a0");
  EXPECT_EQ(again.cluster, "east");
  EXPECT_EQ(again.token, example_record().token);
  EXPECT_EQ(again.settings, example_record().settings);
  EXPECT_EQ(again.memory, example_record().memory);
  EXPECT_EQ(again.processors, example_record().processors);
  EXPECT_EQ(again.links, example_record().links);
  EXPECT_EQ(again.standby, example_record().standby);
  EXPECT_TRUE(again.keeps_store);
  EXPECT_EQ(again.encode(), example_record().encode());
}

// The store's limits are computed with this.
TEST(RankRecord, TakesLessThanAKibibyteWithEightNics) {
  RankRecord one = example_record();
  one.host = "a-host-with-a-rather-long-name.of.some.domain.example";
  one.settings = {{"number of ranks", "4096"},
                  {"TOMBOLO_ROUTING", "per-peer"},
                  {"TOMBOLO_ALGORITHM", "two-level"},
                  {"TOMBOLO_SEGMENT", "1048576"},
                  {"small-vector limit", "65536"}};
  one.endpoint.host = one.host;
  one.processors.set();
  for (int nic = 0; nic < 8; ++nic)
    one.endpoint.offers.push_back({"mlx5_ib" + std::to_string(nic), topology::NicKind::kInfiniBand, 7,
                                   "fd00::" + std::to_string(nic), 4000, 400'000'000'000, false});
  EXPECT_LT(one.encode().size(), 1024U);
}

// 16 MB of nested arrays ended rank 0 with a stack overflow when records were CBOR.
TEST(RankRecord, NestedRecordsOfOtherFormatsAreRefusedNamingTheRank) {
  for (const int byte : {0x81, 0x9f, 0x7f, 0x5f, 0xa1, 0x5b}) {
    const std::vector<std::byte> nested(16 << 20, static_cast<std::byte>(byte));
    EXPECT_NE(record_refusal(nested).find("rank 7 published a record"), std::string::npos) << byte;
  }
  const auto cbor = nlohmann::json::to_cbor({{"host", "a0"}});
  EXPECT_NE(record_refusal(std::as_bytes(std::span(cbor))).find("not of this version"), std::string::npos);
}

TEST(RankRecord, EveryPrefixAndEveryAdditionIsRefused) {
  auto bytes = example_record().encode();
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_NE(record_refusal(std::span(bytes).first(size)), "") << size;
  bytes.push_back({});
  EXPECT_NE(record_refusal(bytes), "");
}

TEST(RankRecord, RandomDamageIsRefusedOrReadAsARecord) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < 20'000; ++round) {
    auto bytes = example_record().encode();
    for (int times = 0; times < 3; ++times) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (!record_refusal(bytes).empty()) continue;
    const auto once = RankRecord::decode(bytes, 7).encode();
    EXPECT_EQ(RankRecord::decode(once, 7).encode(), once);
  }
}

}  // namespace
}  // namespace tombolo::collectives
