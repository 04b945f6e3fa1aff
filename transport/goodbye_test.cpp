#include "transport/goodbye.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace tombolo::transport {
namespace {

TEST(Goodbye, ComesBackAsItWasSaid) {
  const Goodbye sent{GoodbyeReason::kTooLarge, 1, 2, 5, 3, 4, "why", 0b10100001};
  const auto bytes = sent.encode();
  ASSERT_EQ(bytes.size(), Goodbye::kBytes);
  const Goodbye got = Goodbye::decode(bytes);
  EXPECT_EQ(got.reason, sent.reason);
  EXPECT_EQ(got.sent, 1u);
  EXPECT_EQ(got.written, 2u);
  EXPECT_EQ(got.received, 5u);
  EXPECT_EQ(got.size, 3u);
  EXPECT_EQ(got.capacity, 4u);
  EXPECT_EQ(got.text, "why");
  EXPECT_EQ(got.pairs, sent.pairs);
  const Goodbye long_winded{GoodbyeReason::kFailed, 0, 0, 0, 0, 0, std::string(5000, 'x')};
  ASSERT_EQ(long_winded.encode().size(), Goodbye::kBytes);
  EXPECT_EQ(Goodbye::decode(long_winded.encode()).text, std::string(200, 'x'));
}

TEST(Goodbye, HostileBytesAreNamed) {
  for (int why : {0, 5, 255}) {
    auto bytes = Goodbye{}.encode();
    bytes[0] = static_cast<std::byte>(why);
    try {
      Goodbye::decode(bytes);
      ADD_FAILURE() << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kRemote);
      EXPECT_NE(std::string(error.what()).find(fmt::format("unknown reason {}", why)), std::string::npos);
    }
  }
  for (std::size_t size : {0, 1, 20, 40}) {
    const auto bytes = Goodbye{}.encode();
    EXPECT_THROW(Goodbye::decode(std::span(bytes).first(size)), Error) << size;
  }
}

}  // namespace
}  // namespace tombolo::transport
