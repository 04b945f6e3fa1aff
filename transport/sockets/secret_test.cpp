#include "transport/sockets/secret.h"

#include <gtest/gtest.h>

#include <string>

#include "base/format.h"

namespace tombolo::transport {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

std::array<std::byte, 16> filled(unsigned char value) {
  std::array<std::byte, 16> bytes;
  bytes.fill(static_cast<std::byte>(value));
  return bytes;
}

// The key of RFC 4231's first case has 20 bytes, ours 16; these values are Python's hmac with 16 bytes of
// 0x0b.
TEST(Authenticate, IsHmacSha256) {
  Secret secret = Secret::from_bytes(filled(0x0b));
  EXPECT_EQ(hex(authenticate(secret, std::as_bytes(std::span(std::string_view("Hi There"))))),
            "492ce020fe2534a5789dc3848806c78f4f6711397f08e7e7a12ca5a4483c8aa6");
  EXPECT_EQ(hex(authenticate(secret, {})),
            "915cb2c078aaf5dfb3560cf6d96997e987b2de5cd46f9a2ef92493bfc34bab16");
  std::string longer(1000, 'x');
  EXPECT_EQ(hex(authenticate(secret, std::as_bytes(std::span(longer)))),
            "378fb32799fbb76eccbca80fca88a15e027144dc01e2b2c375cea1f5d4da4e65");
}

// The value is Python's hashlib.scrypt(b"abc", salt=b"tombolo secret of a job, 2", n=2**14, r=8, p=1,
// dklen=16).
TEST(Secret, FromTextIsItsScrypt) {
  for (int time = 0; time < 2; ++time)
    EXPECT_EQ(hex(Secret::from_text("abc").bytes()), "c0a5cb76c41f2197fb4abf8df5c16439");
  EXPECT_NE(hex(Secret::from_text("abd").bytes()), hex(Secret::from_text("abc").bytes()));
  EXPECT_NE(hex(Secret::from_text("").bytes()), hex(Secret::from_text("abc").bytes()));
}

TEST(Secret, RandomOnesDiffer) {
  EXPECT_NE(hex(Secret::random().bytes()), hex(Secret::random().bytes()));
}

TEST(Equal, ComparesContentAndLength) {
  auto one = filled(1), two = filled(1);
  EXPECT_TRUE(equal(one, two));
  two[15] = std::byte{0};
  EXPECT_FALSE(equal(one, two));
  EXPECT_FALSE(equal(one, std::span(one).first(15)));
}

}  // namespace
}  // namespace tombolo::transport
