#include "transport/ucx/card.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/randomized_test.h"

namespace tombolo::transport::ucx {
namespace {

Card full_ucx_card() {
  Card card;
  card.kind = Card::Kind::kOffer;
  card.without_tcp = true;
  card.token = 0xdeadbeef12345678;
  card.proof = 0x1234567890abcdef;
  card.address.assign(kLongestAddress, std::byte{0x5a});
  for (std::size_t i = 0; i < kMostLanes; ++i) card.wanted.push_back("10.0.0." + std::to_string(i));
  return card;
}

TEST(UcxCard, ComesBackAsItWasSaid) {
  const Card sent = full_ucx_card();
  const auto bytes = sent.encode();
  ASSERT_EQ(bytes.size(), Card::kBytes);
  const Card got = Card::decode(bytes);
  EXPECT_EQ(got.kind, sent.kind);
  EXPECT_TRUE(got.without_tcp);
  EXPECT_EQ(got.token, sent.token);
  EXPECT_EQ(got.proof, sent.proof);
  EXPECT_EQ(got.address, sent.address);
  EXPECT_EQ(got.wanted, sent.wanted);
  const Card refused = Card::decode(Card::refusal(std::string(1000, 'x')).encode());
  EXPECT_EQ(refused.kind, Card::Kind::kRefusal);
  EXPECT_EQ(refused.reason, std::string(400, 'x'));
}

TEST(UcxCard, WhatMakesNoSenseIsRefusedByName) {
  const auto refusal_of = [](std::size_t at, std::uint8_t value) {
    auto bytes = full_ucx_card().encode();
    bytes[at] = std::byte{value};
    try {
      Card::decode(bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kRemote);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(refusal_of(0, 9).find("has version 9"), std::string::npos);
  EXPECT_NE(refusal_of(2, 77).find("unknown kind 77"), std::string::npos);
  EXPECT_NE(refusal_of(21, 0x7f).find("at most 4096 are allowed"), std::string::npos) << refusal_of(21, 0x7f);
  EXPECT_NE(refusal_of(22 + kLongestAddress, 200).find("names 200 NICs"), std::string::npos);
  Card empty = full_ucx_card();
  empty.address.clear();
  EXPECT_THROW(Card::decode(empty.encode()), Error);
  const auto whole = full_ucx_card().encode();
  EXPECT_THROW(Card::decode(std::span(whole).first(100)), Error);
}

TEST(UcxCard, RandomBytesAreReadOrRefusedButNeverMore) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 2000; ++round) {
    auto bytes = full_ucx_card().encode();
    for (int i = 0; i < 3; ++i) bytes[random() % (i == 0 ? 24 : bytes.size())] = std::byte(random());
    bytes.resize(random() % 2 == 0 ? bytes.size() : random() % bytes.size());
    try {
      const Card card = Card::decode(bytes);
      EXPECT_EQ(Card::decode(card.encode()).encode(), card.encode());
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kRemote);
    }
  }
}

}  // namespace
}  // namespace tombolo::transport::ucx
