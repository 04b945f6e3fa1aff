#include "transport/bootstrap/destination.h"

#include <gtest/gtest.h>

#include <random>
#include <span>

#include "base/randomized_test.h"

namespace tombolo::transport::bootstrap {
namespace {

TEST(Destination, IsReadFromItsServerName) {
  std::mt19937_64 random(test_seed(5));
  for (int i = 0; i < 300; ++i) {
    Destination to;
    to.purpose = static_cast<Purpose>(i % 3);
    if (to.purpose == Purpose::kJoin) to.listener = static_cast<std::uint32_t>(random());
    for (std::byte& one : to.connection) one = static_cast<std::byte>(random());
    const auto read = Destination::parse(to.server_name());
    ASSERT_TRUE(read) << to.server_name();
    EXPECT_EQ(read->purpose, to.purpose);
    EXPECT_EQ(read->listener, to.listener);
    EXPECT_EQ(read->connection, to.connection);
  }
}

TEST(Destination, NoOtherTextIsOne) {
  for (const char* text :
       {"", "j", "j1", "j00000001", "r", "localhost", "j0000000100112233445566778899aabbccddee",
        "j0000000100112233445566778899aabbccddeeff0", "j0000000g00112233445566778899aabbccddeeff",
        "j0000000A00112233445566778899aabbccddeeff", "j+000000100112233445566778899aabbccddeeff",
        "x0000000100112233445566778899aabbccddeeff", "r00112233445566778899aabbccddee",
        "r00112233445566778899aabbccddeeff0", "a00112233445566778899aabbccddeefg"})
    EXPECT_FALSE(Destination::parse(text)) << text;
  // What is read is what would be written.
  std::mt19937_64 random(test_seed(6));
  for (int i = 0; i < 3000; ++i) {
    std::string text =
        Destination{static_cast<Purpose>(i % 3), static_cast<std::uint32_t>(random()), {}}.server_name();
    text[random() % text.size()] = static_cast<char>(random());
    if (random() % 4 == 0) text.resize(random() % (text.size() + 1));
    if (const auto read = Destination::parse(text)) {
      EXPECT_EQ(read->server_name(), text);
    }
  }
}

}  // namespace
}  // namespace tombolo::transport::bootstrap
