#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

#include "base/randomized_test.h"

namespace tombolo {
namespace {

TEST(Crc32c, GivesThePublishedValues) {
  // RFC 3720, appendix B.4, and the check value of the catalogues.
  EXPECT_EQ(crc32c(std::as_bytes(std::span(std::string_view("123456789")))), 0xe3069283U);
  std::vector<std::byte> bytes(32);
  EXPECT_EQ(crc32c(bytes), 0x8a9136aaU);
  bytes.assign(32, std::byte{0xff});
  EXPECT_EQ(crc32c(bytes), 0x62a8ab43U);
}

TEST(Crc32c, IsTheSameByInstructionAndByTableForAnyLengthAndAlignment) {
  std::mt19937_64 random(test_seed());
  std::vector<std::byte> bytes(50'000);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  for (int i = 0; i < 300; ++i) {
    auto from = random() % 100;
    auto part = std::span(bytes).subspan(from, random() % (bytes.size() - from));
    ASSERT_EQ(crc32c(part), crc32c_by_table(part)) << from << " + " << part.size();
  }
}

}  // namespace
}  // namespace tombolo
