#include "transport/rdma/set_up_message.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/randomized_test.h"
#include "transport/rdma/records.h"

namespace tombolo::transport::rdma {
namespace {

using topology::NicKind;

PortFacts roce_port(const std::string& nic, bool v2 = true) {
  PortFacts port;
  port.nic = nic;
  port.roce_v2 = v2;
  port.mtu = 3;
  port.longest = 1 << 30;
  port.gid[15] = std::byte{7};
  return port;
}

SetUpMessage full_message() {
  SetUpMessage message;
  message.kind = SetUpMessage::Kind::kQueues;
  message.queue_pairs_per_nic_pair = kMostQueuePairsPerNicPair;
  message.eager_bytes = 4096;
  message.area = 0x7f0012345000;
  message.token = 0xdeadbeef12345678;
  for (std::size_t i = 0; i < kMostNicPairs; ++i) {
    message.nic_pairs.push_back({roce_port("nic" + std::to_string(i)), "10.0.0." + std::to_string(i), 77});
    message.kept[i] = i % 2 == 0;
  }
  for (std::uint32_t i = 0; i < kMostQueuePairs; ++i) message.queue_pairs.push_back({i + 1, k24Bits - i});
  return message;
}

TEST(RdmaSetUpMessage, ComesBackAsItWasSaid) {
  const SetUpMessage sent = full_message();
  const auto bytes = sent.encode();
  ASSERT_EQ(bytes.size(), SetUpMessage::kBytes);
  const SetUpMessage got = SetUpMessage::decode(bytes);
  EXPECT_EQ(got.kind, sent.kind);
  EXPECT_EQ(got.area, sent.area);
  EXPECT_EQ(got.token, sent.token);
  EXPECT_EQ(got.eager_bytes, sent.eager_bytes);
  EXPECT_EQ(got.kept, sent.kept);
  ASSERT_EQ(got.nic_pairs.size(), sent.nic_pairs.size());
  EXPECT_EQ(got.nic_pairs[3].port.nic, "nic3");
  EXPECT_EQ(got.nic_pairs[3].port.gid, sent.nic_pairs[3].port.gid);
  EXPECT_TRUE(got.nic_pairs[3].port.roce_v2);
  EXPECT_EQ(got.nic_pairs[3].peer_address, "10.0.0.3");
  EXPECT_EQ(got.nic_pairs[3].key, 77u);
  ASSERT_EQ(got.queue_pairs.size(), kMostQueuePairs);
  EXPECT_EQ(got.queue_pairs[5].first, k24Bits - 5);

  const SetUpMessage refused = SetUpMessage::decode(SetUpMessage::refusal("no such NIC").encode());
  EXPECT_EQ(refused.kind, SetUpMessage::Kind::kRefusal);
  EXPECT_EQ(refused.reason, "no such NIC");
  SetUpMessage::decode(SetUpMessage::refusal(std::string(5000, 'x')).encode());
}

/// What is wrong with the bytes, as decode() says it.
std::string complaint(std::vector<std::byte> bytes) {
  try {
    SetUpMessage::decode(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kRemote);
    return error.what();
  }
  return "none";
}

TEST(RdmaSetUpMessage, HostileBytesAreNamed) {
  const auto good = full_message().encode();
  // Layout: version 2, kind 1, pairs 1, eager 4, area 8, token 8, kept 4, NIC pairs 1.
  const auto with = [&](std::size_t at, unsigned value) {
    auto bytes = good;
    bytes[at] = static_cast<std::byte>(value);
    return complaint(bytes);
  };
  EXPECT_NE(with(0, 9).find("version 9"), std::string::npos);
  EXPECT_NE(with(2, 0).find("unknown kind 0"), std::string::npos);
  EXPECT_NE(with(2, 99).find("unknown kind 99"), std::string::npos);
  EXPECT_NE(with(3, 0).find("NIC pairs of 0 queue pairs"), std::string::npos);
  EXPECT_NE(with(3, 200).find("NIC pairs of 200 queue pairs"), std::string::npos);
  EXPECT_NE(with(28, 200).find("claims 200 NIC pairs"), std::string::npos);
  EXPECT_NE(with(29, 200).find("impossible port: kind 200"), std::string::npos);
  EXPECT_NE(with(33, 6).find("MTU code 6"), std::string::npos);
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{30}, std::size_t{500}}) {
    EXPECT_NE(complaint({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}).find("truncated"),
              std::string::npos)
        << size;
  }
}

TEST(RdmaSetUpMessage, GarbageNeverDoesMoreThanThrow) {
  std::mt19937 random(test_seed());
  for (int turn = 0; turn < test_rounds(20'000); ++turn) {
    auto bytes = full_message().encode();
    const std::size_t changes = 1 + random() % 8;
    for (std::size_t i = 0; i < changes; ++i) bytes[random() % 660] = static_cast<std::byte>(random());
    try {
      const SetUpMessage message = SetUpMessage::decode(bytes);
      EXPECT_LE(message.nic_pairs.size(), kMostNicPairs);
      EXPECT_LE(message.queue_pairs.size(), kMostQueuePairs);
    } catch (const Error&) {
    }
  }
}

TEST(RdmaSetUpMessage, PortsThatCannotTalkAreNamed) {
  EXPECT_EQ(why_not_together(roce_port("a"), roce_port("b")), "");
  PortFacts infiniband = roce_port("ib0");
  infiniband.kind = NicKind::kInfiniBand;
  EXPECT_NE(why_not_together(roce_port("a"), infiniband).find("infiniband"), std::string::npos);
  PortFacts elsewhere = infiniband;
  elsewhere.gid[0] = std::byte{0xfe};
  EXPECT_EQ(why_not_together(infiniband, infiniband), "");
  EXPECT_NE(why_not_together(infiniband, elsewhere).find("different prefix"), std::string::npos);
  EXPECT_NE(why_not_together(roce_port("a"), roce_port("b", false)).find("RoCE v1"), std::string::npos);
}

TEST(RdmaRecords, HeadersComeBackAndThoseThatMakeNoSenseDoNot) {
  std::array<std::byte, kHeaderBytes + 10> bytes{};
  Header sent;
  sent.type = Header::Type::kEager;
  sent.eager_taken = 5;
  sent.control_taken = 6;
  sent.sequence = 7;
  sent.size = 10;
  sent.write(std::span(bytes).first<kHeaderBytes>());
  const auto got = Header::read(bytes);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->type, Header::Type::kEager);
  EXPECT_EQ(got->eager_taken, 5u);
  EXPECT_EQ(got->control_taken, 6u);
  EXPECT_EQ(got->sequence, 7u);
  EXPECT_EQ(got->size, 10u);
  EXPECT_FALSE(Header::read(std::span(bytes).first(kHeaderBytes + 9))) << "a byte is missing";
  EXPECT_FALSE(Header::read(std::span(bytes).first(kHeaderBytes - 1)));
  for (unsigned type : {0U, 5U, 255U}) {
    auto wrong = bytes;
    wrong[0] = static_cast<std::byte>(type);
    EXPECT_FALSE(Header::read(wrong)) << type;
  }
  sent.type = Header::Type::kReceives;
  sent.count = kMostAdverts + 1;
  std::vector<std::byte> many(kHeaderBytes + (kMostAdverts + 1) * Advert::kBytes);
  sent.write(std::span(many).first<kHeaderBytes>());
  EXPECT_FALSE(Header::read(many));
}

TEST(RdmaRecords, AdvertsAndMarksComeBackAsTheyWere) {
  std::array<std::byte, Advert::kBytes> bytes{};
  const Advert sent{1, 2, 3, {4, 5, 6, 7}};
  sent.write(bytes);
  const Advert got = Advert::read(bytes);
  EXPECT_EQ(got.sequence, 1u);
  EXPECT_EQ(got.address, 2u);
  EXPECT_EQ(got.capacity, 3u);
  EXPECT_EQ(got.keys, sent.keys);
  const PartMark mark = PartMark::unpack(PartMark{0xffff, 33}.pack());
  EXPECT_EQ(mark.sequence, 0xffff);
  EXPECT_EQ(mark.parts, 33);
}

}  // namespace
}  // namespace tombolo::transport::rdma
