#include "collectives/rendezvous/store_protocol.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/error.h"
#include "base/randomized_test.h"

namespace tombolo::collectives::store {
namespace {

using transport::Secret;

std::span<const std::byte> body_of(const std::vector<std::byte>& frame) {
  return std::span(frame).subspan(kLengthBytes);
}

TEST(StoreFrame, ComesBackAsItWasSaid) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < 200; ++round) {
    std::string key(random() % (round % 2 == 0 ? 10 : kMaxKey + 1), 'k');
    std::vector<std::byte> value(random() % 3000);
    for (std::byte& byte : value) byte = static_cast<std::byte>(random());
    const auto request = static_cast<std::uint32_t>(random());
    const auto bytes = encode(Kind::kClaim, request, key, value);
    ASSERT_EQ(read_length(std::span(bytes).first<kLengthBytes>()), bytes.size() - kLengthBytes);
    const Frame frame = parse(body_of(bytes));
    EXPECT_EQ(frame.kind, Kind::kClaim);
    EXPECT_EQ(frame.request, request);
    EXPECT_EQ(frame.key, key);
    EXPECT_TRUE(std::equal(frame.value.begin(), frame.value.end(), value.begin(), value.end()));
  }
}

TEST(StoreFrame, OfMoreThanTheServerTakesIsNotMade) {
  const std::vector<std::byte> value(kMaxValue + 1);
  EXPECT_THROW(encode(Kind::kSet, 1, std::string(kMaxKey + 1, 'k'), {}), Error);
  EXPECT_THROW(encode(Kind::kSet, 1, "key", value), Error);
  const auto longest = encode(Kind::kSet, 1, std::string(kMaxKey, 'k'), std::span(value).first<kMaxValue>());
  EXPECT_EQ(longest.size(), kLengthBytes + kMaxFrame);
}

TEST(StoreFrame, WhoseLengthsDoNotAddUpIsRefused) {
  const auto bytes = encode(Kind::kSet, 1, "key", std::vector<std::byte>(5));
  for (std::size_t length = 0; length < kHeaderBytes + 3; ++length)
    EXPECT_THROW(parse(body_of(bytes).first(length)), Error) << length << " bytes";
  EXPECT_EQ(parse(body_of(bytes).first(kHeaderBytes + 3)).value.size(), 0u);
}

TEST(StoreFrame, RandomBytesAreReadOrRefusedButNeverMore) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::byte> bytes(random() % 40);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 4 == 0 ? random() : random() % 8);
    try {
      const Frame frame = parse(bytes);
      ASSERT_EQ(kHeaderBytes + frame.key.size() + frame.value.size(), bytes.size());
    } catch (const Error& error) {
      ASSERT_EQ(error.cause(), Cause::kRemote);
    }
  }
}

TEST(StoreHello, NamesWhatAnswersInstead) {
  const Nonce nonce = random_nonce();
  auto hello = make_hello(nonce);
  EXPECT_EQ(read_hello(hello), nonce);
  hello[4] = std::byte{1};
  try {
    read_hello(hello);
    ADD_FAILURE() << "another version was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kRemote);
    EXPECT_STREQ(error.what(), "the store speaks version 1, this build version 4");
  }
  hello[0] = std::byte{'H'};
  try {
    read_hello(hello);
    ADD_FAILURE() << "another protocol was taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "what answers is not a Tombolo store");
  }
}

class StoreProofs : public testing::Test {
 protected:
  const Secret secret_ = Secret::from_text("open sesame"), other_ = Secret::from_text("open barley");
  const Nonce server_ = random_nonce(), client_ = random_nonce();
  const StoreId store_{std::byte{1}, std::byte{2}, std::byte{3}};
};

TEST_F(StoreProofs, HoldForTheSecretAndBothNonces) {
  const auto proof = make_proof(secret_, server_, client_);
  Nonce client{};
  EXPECT_TRUE(check_proof(secret_, server_, proof, client));
  EXPECT_EQ(client, client_);
  EXPECT_FALSE(check_proof(other_, server_, proof, client));
  EXPECT_FALSE(check_proof(secret_, random_nonce(), proof, client)) << "of an earlier connection";
  const auto verdict = make_verdict(secret_, server_, client_, store_);
  EXPECT_EQ(check_verdict(secret_, server_, client_, verdict), store_);
  EXPECT_FALSE(check_verdict(other_, server_, client_, verdict));
  EXPECT_FALSE(check_verdict(secret_, random_nonce(), client_, verdict));
  EXPECT_FALSE(check_verdict(secret_, server_, random_nonce(), verdict));
}

TEST_F(StoreProofs, ShowEveryChangeOfOneBit) {
  auto proof = make_proof(secret_, server_, client_);
  auto verdict = make_verdict(secret_, server_, client_, store_);
  Nonce client{};
  const auto flipped = [](auto& bytes, std::size_t bit, const auto& check) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const bool holds = bool(check());
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    return holds;
  };
  for (std::size_t bit = 0; bit < 8 * proof.size(); ++bit)
    EXPECT_FALSE(flipped(proof, bit, [&] { return check_proof(secret_, server_, proof, client); })) << bit;
  for (std::size_t bit = 0; bit < 8 * verdict.size(); ++bit)
    EXPECT_FALSE(flipped(verdict, bit, [&] { return check_verdict(secret_, server_, client_, verdict); }))
        << bit;
}

// Each end proves itself in words of its own: what the one has said is no proof from the other.
TEST_F(StoreProofs, CannotBeReflected) {
  const auto proof = make_proof(secret_, server_, client_);
  std::array<std::byte, kVerdictBytes> verdict{};
  verdict[0] = std::byte{1};
  std::copy_n(proof.begin() + 4 + kNonceBytes, kMacBytes, verdict.end() - kMacBytes);
  EXPECT_FALSE(check_verdict(secret_, server_, client_, verdict));
  EXPECT_FALSE(check_verdict(secret_, client_, server_, verdict));
}

TEST_F(StoreProofs, ARejectedClientLearnsNothing) {
  const auto verdict = make_verdict(secret_, server_, client_, std::nullopt);
  EXPECT_EQ(verdict, (std::array<std::byte, kVerdictBytes>{}));
  EXPECT_FALSE(check_verdict(secret_, server_, client_, verdict));
}

}  // namespace
}  // namespace tombolo::collectives::store
