#include "tools/emulation/segments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "base/randomized_test.h"

namespace tombolo::emulation {
namespace {

constexpr std::size_t kIpAt = kFrameHeader + 14, kTcpAt = kIpAt + 20, kPayloadAt = kTcpAt + 32;

std::size_t number(std::span<const std::byte> bytes, std::size_t at, std::size_t length) {
  std::size_t value = 0;
  for (std::size_t i = 0; i < length; ++i) value = value << 8 | std::to_integer<std::size_t>(bytes[at + i]);
  return value;
}

// A super-packet as the kernel makes it: 14 + 20 + 32 bytes of headers (with timestamps), `payload` random
// bytes.
std::vector<std::byte> super_packet(std::size_t payload, std::uint16_t segment_bytes,
                                    std::uint32_t sequence) {
  std::vector<std::byte> frame(kPayloadAt + payload);
  auto put = [&](std::size_t at, std::initializer_list<int> bytes) {
    for (int byte : bytes) frame[at++] = static_cast<std::byte>(byte);
  };
  // The virtio header is in the machine's order: x86-64.
  put(0, {1, 1, 66, 0, segment_bytes & 255, segment_bytes >> 8, 34, 0, 16, 0});
  put(kFrameHeader + 12, {0x08, 0x00});
  std::size_t total = 20 + 32 + payload;
  put(kIpAt, {0x45,
              0,
              static_cast<int>(total >> 8),
              static_cast<int>(total & 255),
              0xff,
              0xfe,
              0x40,
              0,
              64,
              6,
              0,
              0,
              10,
              77,
              0,
              1,
              10,
              77,
              0,
              2});
  put(kTcpAt, {0x80,
               1,
               0x13,
               0x88,
               static_cast<int>(sequence >> 24),
               static_cast<int>(sequence >> 16 & 255),
               static_cast<int>(sequence >> 8 & 255),
               static_cast<int>(sequence & 255),
               0,
               0,
               0,
               7,
               0x80,
               0x99,
               1,
               0,
               0,
               0,
               0,
               0});
  std::mt19937_64 random(payload);
  for (std::size_t i = kPayloadAt; i < frame.size(); ++i) frame[i] = static_cast<std::byte>(random());
  return frame;
}

// RFC 1071's sum over a header with a correct checksum is all ones.
std::size_t ip_sum(std::span<const std::byte> frame) {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < 20; i += 2) sum += number(frame, kIpAt + i, 2);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

TEST(Segments, CountsWhatASuperPacketWouldBeOnTheWire) {
  auto frame = super_packet(4000, 1448, 1);
  Segments segments = segments_of(frame);
  EXPECT_EQ(segments.count, 3U);
  EXPECT_EQ(segments.headers, 66U);
  EXPECT_EQ(segments.wire_bytes(0, 3), 4000U + 3 * 66);
  EXPECT_EQ(segments.wire_bytes(1, 2), 1448U + 66);
  EXPECT_EQ(segments.wire_bytes(2, 3), 4000U - 2 * 1448 + 66);
  EXPECT_EQ(segments.wire_bytes(3, 3), 0U);
}

TEST(Segments, TakesEverythingElseForOneSegment) {
  auto frame = super_packet(4000, 1448, 1);
  for (std::size_t at : {std::size_t{1}, kFrameHeader + 12, kIpAt + 9}) {  // in turn: no GSO, no IPv4, no TCP
    auto other = frame;
    other[at] = std::byte{0};
    EXPECT_EQ(segments_of(other).count, 1U) << at;
    EXPECT_EQ(segments_of(other).wire_bytes(0, 1), frame.size() - kFrameHeader);
  }
  std::mt19937 random(test_seed(7));
  for (std::size_t size = 0; size < 200; ++size) {
    std::vector<std::byte> noise(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size));
    for (std::byte& byte : noise) byte = random() % 4 == 0 ? static_cast<std::byte>(random()) : byte;
    EXPECT_GE(segments_of(noise).count, 1U);
  }
}

TEST(Segments, CutsPiecesThatTogetherAreTheWhole) {
  const std::uint32_t sequence = 0xfffffc00;  // wraps around within the frame
  auto frame = super_packet(10 * 1448 - 100, 1448, sequence);
  Segments segments = segments_of(frame);
  ASSERT_EQ(segments.count, 10U);
  std::vector<std::byte> payload;
  for (auto [first, last] : {std::pair<std::size_t, std::size_t>{0, 1}, {1, 5}, {5, 6}, {6, 10}}) {
    std::vector<std::byte> piece;
    cut_segments(frame, segments, first, last, piece);
    EXPECT_EQ(segments_of(piece).count, last - first);
    EXPECT_EQ(segments_of(piece).wire_bytes(0, last - first), segments.wire_bytes(first, last));
    EXPECT_EQ(number(piece, kIpAt + 2, 2), piece.size() - kIpAt) << "total length";
    EXPECT_EQ(number(piece, kIpAt + 4, 2), (0xfffe + first) & 0xffff) << "identification";
    EXPECT_EQ(ip_sum(piece), 0xffffU);
    EXPECT_EQ(number(piece, kTcpAt + 4, 4), (sequence + first * 1448) & 0xffffffff);
    EXPECT_EQ(number(piece, kTcpAt + 13, 1), 0x10U | (first == 0 ? 0x80U : 0U) | (last == 10 ? 0x09U : 0U));
    std::size_t sum = 10 * 256 + 77 + 1 + 10 * 256 + 77 + 2 + 6 + piece.size() - kTcpAt;
    EXPECT_EQ(number(piece, kTcpAt + 16, 2), (sum & 0xffff) + (sum >> 16)) << "sum of the pseudo header";
    EXPECT_EQ(piece[1], std::byte{last - first > 1 ? std::uint8_t{1} : std::uint8_t{0}});
    payload.insert(payload.end(), piece.begin() + kPayloadAt, piece.end());
  }
  EXPECT_TRUE(std::ranges::equal(payload, std::span(frame).subspan(kPayloadAt)));
}

}  // namespace
}  // namespace tombolo::emulation
