#include "base/hash.h"

#include <gtest/gtest.h>

namespace tombolo {
namespace {

// The values of the algorithm's definition: names hashed by another build must still match.
TEST(Hash, GivesTheNumbersThatEveryBuildGives) {
  EXPECT_EQ(fnv1a<std::uint32_t>(""), 0x811c9dc5U);
  EXPECT_EQ(fnv1a<std::uint32_t>("a"), 0xe40c292cU);
  EXPECT_EQ(fnv1a<std::uint32_t>("foobar"), 0xbf9cf968U);
  EXPECT_EQ(fnv1a<std::uint64_t>(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(fnv1a<std::uint64_t>("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(fnv1a<std::uint64_t>("foobar"), 0x85944171f73967e8ULL);
  EXPECT_EQ(fnv1a<std::uint32_t>("\xff"), (0x811c9dc5U ^ 0xffU) * 0x01000193U) << "bytes are unsigned";
}

// SplitMix64's first outputs of seed 0, whose state grows by the constant that mix() adds.
TEST(Hash, MixesAsSplitMix64Does) {
  EXPECT_EQ(mix(0), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(mix(0x9e3779b97f4a7c15ULL), 0x6e789e6aa1b965f4ULL);
}

}  // namespace
}  // namespace tombolo
