#include "transport/shm/set_up_message.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tombolo::transport::shm {
namespace {

TEST(ShmSetUpMessage, ComesBackAsItWasSaid) {
  SetUpMessage sent;
  sent.kind = SetUpMessage::Kind::kOffer;
  sent.descriptor = 7;
  sent.process = 4711;
  sent.witness = 0x7f0012345000;
  sent.nonce.fill(std::byte{0x5a});
  const auto bytes = sent.encode();
  ASSERT_EQ(bytes.size(), SetUpMessage::kBytes);
  const SetUpMessage got = SetUpMessage::decode(bytes);
  EXPECT_EQ(got.kind, sent.kind);
  EXPECT_EQ(got.descriptor, sent.descriptor);
  EXPECT_EQ(got.process, sent.process);
  EXPECT_EQ(got.segment_bytes, sizeof(Segment));
  EXPECT_EQ(got.witness, sent.witness);
  EXPECT_EQ(got.nonce, sent.nonce);
}

TEST(ShmSetUpMessage, EveryKindComesBack) {
  SetUpMessage answer;
  answer.kind = SetUpMessage::Kind::kAnswer;
  EXPECT_EQ(SetUpMessage::decode(answer.encode()).kind, SetUpMessage::Kind::kAnswer);
  SetUpMessage proved;
  proved.can_fetch = true;
  const SetUpMessage got = SetUpMessage::decode(proved.encode());
  EXPECT_EQ(got.kind, SetUpMessage::Kind::kProved);
  EXPECT_TRUE(got.can_fetch);

  const SetUpMessage refused = SetUpMessage::decode(SetUpMessage::refusal(std::string(1000, 'x')).encode());
  EXPECT_EQ(refused.kind, SetUpMessage::Kind::kRefusal);
  EXPECT_EQ(refused.reason, std::string(160, 'x'));
}

TEST(ShmSetUpMessage, TooFewBytesAndUnknownKindsAreRefused) {
  auto whole = SetUpMessage{}.encode();
  EXPECT_THROW(SetUpMessage::decode(std::span(whole).first(100)), Error);
  for (const int kind : {0, 5}) {
    whole[0] = static_cast<std::byte>(kind);
    EXPECT_THROW(SetUpMessage::decode(whole), Error) << kind;
  }
}

}  // namespace
}  // namespace tombolo::transport::shm
