#include "transport/rdma/records.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/randomized_test.h"

namespace tombolo::transport::rdma {
namespace {

/// A header with as many bytes behind it as it says.
std::vector<std::byte> record(const Header& header, std::size_t payload) {
  std::vector<std::byte> bytes(kHeaderBytes + payload);
  header.write(std::span(bytes).first<kHeaderBytes>());
  return bytes;
}

TEST(RdmaHeader, ComesBackAsItWasWritten) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 500; ++round) {
    Header header;
    header.type = static_cast<Header::Type>(1 + random() % 4);
    header.count = static_cast<std::uint8_t>(1 + random() % kMostAdverts);
    header.eager_taken = static_cast<std::uint32_t>(random());
    header.control_taken = static_cast<std::uint32_t>(random());
    header.sequence = random();
    header.size = header.type == Header::Type::kEager ? random() % 4097 : random();
    const std::size_t payload = header.type == Header::Type::kEager      ? header.size
                                : header.type == Header::Type::kReceives ? header.count * Advert::kBytes
                                                                         : 0;
    const auto bytes = record(header, payload);
    const auto read = Header::read(bytes);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->type, header.type);
    EXPECT_EQ(read->count, header.count);
    EXPECT_EQ(read->eager_taken, header.eager_taken);
    EXPECT_EQ(read->control_taken, header.control_taken);
    EXPECT_EQ(read->sequence, header.sequence);
    EXPECT_EQ(read->size, header.size);
    // A byte more or less than it says is no record.
    auto longer = bytes;
    longer.push_back({});
    EXPECT_FALSE(Header::read(longer));
    EXPECT_FALSE(Header::read(std::span(bytes).first(bytes.size() - 1)));
  }
}

TEST(RdmaHeader, WhatMakesNoSenseIsNone) {
  EXPECT_FALSE(Header::read({}));
  const auto changed = [](std::size_t at, std::byte value) {
    auto bytes = record(Header{}, 0);
    EXPECT_TRUE(Header::read(bytes));
    bytes[at] = value;
    return Header::read(bytes).has_value();
  };
  EXPECT_FALSE(changed(0, std::byte{0})) << "an unknown type";
  EXPECT_FALSE(changed(0, std::byte{5}));
  for (const std::size_t zero : {2, 3, 12, 13, 14, 15}) EXPECT_FALSE(changed(zero, std::byte{1})) << zero;
  Header none;
  none.type = Header::Type::kReceives;
  none.count = 0;
  EXPECT_FALSE(Header::read(record(none, 0)));
  none.count = kMostAdverts + 1;
  EXPECT_FALSE(Header::read(record(none, none.count * Advert::kBytes)));
  Header huge;
  huge.type = Header::Type::kEager;
  huge.size = UINT64_MAX;
  EXPECT_FALSE(Header::read(record(huge, 4096)));
}

TEST(RdmaAdvert, ComesBackAsItWasWritten) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 100; ++round) {
    Advert advert{random(), random(), random(), {}};
    for (std::uint32_t& key : advert.keys) key = static_cast<std::uint32_t>(random());
    std::array<std::byte, Advert::kBytes> bytes{};
    advert.write(bytes);
    const Advert read = Advert::read(bytes);
    EXPECT_EQ(read.sequence, advert.sequence);
    EXPECT_EQ(read.address, advert.address);
    EXPECT_EQ(read.capacity, advert.capacity);
    EXPECT_EQ(read.keys, advert.keys);
  }
}

TEST(RdmaPartMark, HoldsSequenceAndPartsApart) {
  for (const PartMark mark : {PartMark{0, 1}, PartMark{65535, 32}, PartMark{4711, 65535}}) {
    const PartMark read = PartMark::unpack(mark.pack());
    EXPECT_EQ(read.sequence, mark.sequence);
    EXPECT_EQ(read.parts, mark.parts);
  }
}

}  // namespace
}  // namespace tombolo::transport::rdma
