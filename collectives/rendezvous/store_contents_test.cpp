#include "collectives/rendezvous/store_contents.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <random>

#include "base/error.h"
#include "base/randomized_test.h"
#include "collectives/testing/store_model.h"

namespace tombolo::collectives {
namespace {

using store::Kind;
using test::Answered;
using test::StoreModel;
using test::TestClient;

class StoreContentsTest : public ::testing::Test {
 protected:
  static StoreLimits small() {
    StoreLimits limits;
    limits.keys = 3;
    limits.bytes = 10'000;
    return limits;
  }
  Answered ask(TestClient& client, Kind kind, std::string_view key, std::string_view value = "") {
    client.answers.clear();
    contents_.serve(client, {kind, ++last_request_, key, std::as_bytes(std::span(value))});
    return client.answers.empty() ? Answered{} : client.answers.back();
  }

  StoreContents contents_{small()};
  TestClient one_, two_;
  std::uint32_t last_request_ = 0;
};

TEST_F(StoreContentsTest, AClientWaitsForOneKeyAtMost) {
  for (int i = 0; i < 10'000; ++i) ask(one_, Kind::kGet, "key " + std::to_string(i));
  EXPECT_EQ(contents_.waiting(), 1U);
  ask(two_, Kind::kGet, "key 9999");
  EXPECT_EQ(contents_.waiting(), 2U);
  ask(two_, Kind::kSet, "key 5", "value");
  EXPECT_TRUE(one_.answers.empty()) << "it asked for something else since";
  EXPECT_EQ(contents_.waiting(), 1U) << "whoever asks for something else does not wait any more";
  ask(two_, Kind::kSet, "key 9999", "value");
  ASSERT_EQ(one_.answers.size(), 1U);
  EXPECT_EQ(one_.answers[0].text, "value");
  EXPECT_EQ(contents_.waiting(), 0U);
  ask(one_, Kind::kGet, "never");
  contents_.leave(one_);
  contents_.leave(one_);
  EXPECT_EQ(contents_.waiting(), 0U);
}

TEST_F(StoreContentsTest, RefusesKeysBeyondTheirNumberAndGoesOn) {
  for (const char* key : {"a", "b", "c"}) EXPECT_EQ(ask(one_, Kind::kSet, key, "1").kind, Kind::kValue);
  for (const Kind kind : {Kind::kSet, Kind::kClaim, Kind::kAdd}) {
    const Answered refused = ask(one_, kind, "d", "12345678");
    EXPECT_EQ(refused.kind, Kind::kRefused);
    EXPECT_NE(refused.text.find("full"), std::string::npos) << refused.text;
  }
  EXPECT_EQ(contents_.keys(), 3U);
  EXPECT_EQ(ask(one_, Kind::kTryGet, "d").kind, Kind::kAbsent);
  EXPECT_EQ(ask(one_, Kind::kSet, "a", "2").kind, Kind::kValue) << "a key that is there can be set";
  EXPECT_EQ(ask(two_, Kind::kGet, "a").text, "2");
}

TEST_F(StoreContentsTest, RefusesBytesBeyondTheLimitWhetherInValuesOrInKeys) {
  EXPECT_EQ(ask(one_, Kind::kSet, "a", std::string(9'000, 'x')).kind, Kind::kValue);
  const std::size_t taken = contents_.budget().taken();
  EXPECT_EQ(ask(one_, Kind::kSet, "b", std::string(1'000, 'x')).kind, Kind::kRefused);
  EXPECT_EQ(ask(one_, Kind::kSet, std::string(1'000, 'k'), "").kind, Kind::kRefused);
  EXPECT_EQ(contents_.budget().taken(), taken) << "a refusal takes nothing";
  EXPECT_EQ(ask(one_, Kind::kGet, "a").text.size(), 9'000U) << "a refusal changes nothing";
  one_.answers.clear();
  EXPECT_EQ(ask(two_, Kind::kSet, "a", "").kind, Kind::kValue);
  EXPECT_LT(contents_.budget().taken(), 1'000U);
  EXPECT_EQ(ask(one_, Kind::kSet, "b", std::string(1'000, 'x')).kind, Kind::kValue);
}

TEST_F(StoreContentsTest, CountsAReplacedValueWhileAnAnswerHoldsIt) {
  ask(one_, Kind::kSet, "a", std::string(4'000, 'x'));
  one_.keep = true;
  ask(one_, Kind::kGet, "a");
  EXPECT_EQ(ask(two_, Kind::kSet, "a", std::string(4'000, 'y')).kind, Kind::kValue);
  EXPECT_EQ(ask(two_, Kind::kSet, "a", std::string(4'000, 'z')).kind, Kind::kRefused);
  one_.kept.clear();
  EXPECT_EQ(ask(two_, Kind::kSet, "a", std::string(4'000, 'z')).kind, Kind::kValue);
}

TEST_F(StoreContentsTest, RefusesAValueThatItCouldNotSendOn) {
  const std::string large(store::kMaxValue + 1, 'x');
  ask(two_, Kind::kGet, "a");
  EXPECT_EQ(ask(one_, Kind::kSet, "a", large).kind, Kind::kRefused);
  EXPECT_TRUE(two_.answers.empty());
  EXPECT_EQ(contents_.waiting(), 1U);
}

TEST_F(StoreContentsTest, AHeldKeyGoesWithItsClientUnlessAnotherOneHasSetItSince) {
  const std::size_t empty = contents_.budget().taken();
  for (const bool set_since : {false, true}) {
    EXPECT_EQ(ask(one_, Kind::kHold, "a", "1").kind, Kind::kValue);
    EXPECT_EQ(ask(one_, Kind::kHold, "a", "2").kind, Kind::kValue);
    EXPECT_EQ(ask(one_, Kind::kHold, "b", "1").kind, Kind::kRefused) << "one key at most";
    EXPECT_EQ(ask(one_, Kind::kGet, "never").kind, Kind::kServerClosing) << "it waits and holds on";
    EXPECT_EQ(ask(two_, Kind::kGet, "a").text, "2");
    if (set_since) ask(two_, Kind::kSet, "a", "3");
    contents_.leave(one_);
    contents_.leave(one_);
    EXPECT_EQ(contents_.keys(), set_since ? 1U : 0U);
    if (!set_since) {
      EXPECT_EQ(contents_.budget().taken(), empty);
    }
  }
  EXPECT_EQ(ask(two_, Kind::kGet, "a").text, "3");
}

TEST_F(StoreContentsTest, AnUnknownRequestIsItsClientsEnd) {
  for (const int kind : {0, 7, 16, 17, 18, 19, 255}) {
    try {
      ask(one_, static_cast<Kind>(kind), "a");
      ADD_FAILURE() << kind;
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kRemote);
    }
  }
}

TEST(StoreContentsModel, RandomRequestsOfSeveralClientsAreAnsweredAsByAMap) {
  std::mt19937 random(test_seed());
  const auto any = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
  for (int run = 0; run < 50; ++run) {
    StoreLimits limits;
    if (run % 2 == 1) limits.keys = 3;
    StoreModel model(limits);
    for (int step = 0; step < 400; ++step) {
      const auto client = static_cast<std::size_t>(any(StoreModel::kClients - 1));
      if (any(9) == 0) {
        model.leave(client);
        continue;
      }
      constexpr std::array kKinds{Kind::kSet,   Kind::kGet, Kind::kTryGet,
                                  Kind::kClaim, Kind::kAdd, Kind::kHold};
      const std::string key = "key " + std::to_string(any(4));
      const std::string value(static_cast<std::size_t>(any(2) * 4), static_cast<char>('a' + any(3)));
      ASSERT_EQ(model.step(client, kKinds[static_cast<std::size_t>(any(5))], key, value), "") << step;
    }
  }
}

}  // namespace
}  // namespace tombolo::collectives
