#include "trainer/checkpoint/names.h"

#include <gtest/gtest.h>

namespace tombolo::trainer {
namespace {

TEST(CheckpointNames, OfFoldersAreReadBack) {
  const CheckpointId ids[] = {{0, 0}, {100, 0x0123456789abcdef}, {123456789012, ~std::uint64_t{0}}};
  EXPECT_EQ(folder_name(ids[1]), "step-00000100-0123456789abcdef");
  for (const CheckpointId& id : ids) EXPECT_EQ(parse_folder_name(folder_name(id)), id);
}

TEST(CheckpointNames, ThatAreNoFoldersAreRefused) {
  for (const char* name : {"", "step-", "step-1-0123456789abcdef", "step-00000100", "step-00000100-123",
                           "step-00000100-0123456789ABCDEF", "step-00000100-0123456789abcdef0",
                           "step--0000100-0123456789abcdef", "step-00000100-0123456789abcdeg",
                           "step-99999999999999999999-0123456789abcdef", "xstep-00000100-0123456789abcdef"})
    EXPECT_FALSE(parse_folder_name(name)) << name;
}

TEST(CheckpointNames, OfShardsAreReadBack) {
  EXPECT_EQ(shard_name({3, 8}), "shard-3-of-8.tombolo");
  EXPECT_EQ(parse_shard_name("shard-3-of-8.tombolo"), (ShardName{3, 8}));
  for (const char* name :
       {"shard-8-of-8.tombolo", "shard-03-of-8.tombolo", "shard-3-of-8", "shard--1-of-8.tombolo",
        "shard-3-of-8.tombolo.partial", "shard-99999999999-of-8.tombolo"})
    EXPECT_FALSE(parse_shard_name(name)) << name;
  EXPECT_TRUE(is_partial_name(partial_name({3, 8})));
  EXPECT_FALSE(is_partial_name(shard_name({3, 8})));
  EXPECT_FALSE(is_partial_name("notes.partial"));
}

}  // namespace
}  // namespace tombolo::trainer
