// The rules against what released loaders were seen to do: docs/results/nccl_loader.md.
#include "tools/doctor/nccl_rules.h"

#include <gtest/gtest.h>

namespace tombolo::doctor {
namespace {

TEST(NcclRules, TheTableThatEachReleaseTakesIsTheMeasuredOne) {
  const std::vector<int> all{6, 7, 8, 9, 10, 11, 12};
  for (const auto& [release, table] : std::vector<std::pair<NcclRelease, int>>{{21801, 6},
                                                                               {21803, 6},
                                                                               {21903, 7},
                                                                               {22005, 8},
                                                                               {22105, 8},
                                                                               {22203, 8},
                                                                               {22304, 8},
                                                                               {22403, 9},
                                                                               {22501, 9},
                                                                               {22602, 10},
                                                                               {22707, 10},
                                                                               {22803, 11},
                                                                               {22909, 11},
                                                                               {23003, 12},
                                                                               {23203, 12},
                                                                               {kUnknownRelease, 12}}) {
    EXPECT_EQ(table_taken(all, release), table) << release_text(release);
  }
  EXPECT_EQ(table_taken(all, 21212), 0) << "2.12 looks for v5 and older";
}

TEST(NcclRules, TheTableOfOneSidedOperationsIsTheMeasuredOne) {
  for (const auto& [release, table] : std::vector<std::pair<NcclRelease, int>>{{22907, 0},
                                                                               {23003, 13},
                                                                               {23004, 13},
                                                                               {23007, 14},
                                                                               {23102, 15},
                                                                               {23203, 15},
                                                                               {kUnknownRelease, 15}})
    EXPECT_EQ(rma_table(release), table) << release_text(release);
}

TEST(NcclRules, ATableIsTakenOnlyWhereTheLibraryHasIt) {
  EXPECT_EQ(table_taken(std::vector{6, 8}, 22602), 8);
  EXPECT_EQ(table_taken(std::vector{11, 12}, 22602), 0);
  EXPECT_EQ(table_taken(std::vector{4, 5}, 22602), 0);
  EXPECT_EQ(table_taken({}, 22602), 0);
}

TEST(NcclRules, APathIsLookedForAsItIsFrom221OnButNotIn2273) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(libraries_tried("/x/y.so", 22005), Names{"libnccl-net-/x/y.so.so"});
  EXPECT_EQ(libraries_tried("/x/y.so", 22703), Names{"libnccl-net-/x/y.so.so"});
  EXPECT_EQ(libraries_tried("libnccl-net-tombolo.so", 22703), Names{"libnccl-net-tombolo.so"});
  EXPECT_EQ(libraries_tried("libx.so.1", 22703), Names{"libnccl-net-libx.so.1.so"});
  EXPECT_EQ(libraries_tried("libx.so", 22005), Names{"libnccl-net-libx.so.so"});
  for (const NcclRelease release : {22105, 22602, 22705, 22803, 23203, kUnknownRelease})
    EXPECT_EQ(libraries_tried("/x/y.so", release), (Names{"/x/y.so", "libnccl-net-/x/y.so.so"})) << release;
  for (const NcclRelease release : {21801, 22703, 23203}) {
    EXPECT_EQ(libraries_tried("tombolo", release).back(), "libnccl-net-tombolo.so");
    EXPECT_EQ(libraries_tried("", release), Names{"libnccl-net.so"});
  }
}

TEST(NcclRules, AListIsCutFrom227On) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(plugin_entries("a,b", 22605), Names{"a,b"});
  EXPECT_EQ(plugin_entries("a,b", 22703), (Names{"a", "b"}));
  EXPECT_EQ(plugin_entries(",a,,b,", 22803), (Names{"a", "b"}));
  EXPECT_EQ(plugin_entries("", 22803), Names{""});
  EXPECT_EQ(plugin_entries("", 22605), Names{""});
}

TEST(NcclRules, ThePluginIsForgottenIn228And229UnlessItIsKept) {
  for (const NcclRelease release : {22803, 22809, 22902, 22907}) {
    EXPECT_TRUE(forgets_plugin(release, "")) << release;
    EXPECT_TRUE(forgets_plugin(release, "0")) << release;
    EXPECT_FALSE(forgets_plugin(release, "1")) << release;
  }
  EXPECT_TRUE(forgets_plugin(22707, "0"));
  EXPECT_FALSE(forgets_plugin(22707, ""));
  for (const NcclRelease release : {22602, 23003, 23203, kUnknownRelease}) {
    EXPECT_FALSE(forgets_plugin(release, "0")) << release;
    EXPECT_FALSE(forgets_plugin(release, "")) << release;
  }
}

TEST(NcclRules, FilesOfVariablesAreFoundAsTheReleaseFindsThem) {
  EXPECT_FALSE(reads_named_file(22203));
  EXPECT_TRUE(reads_named_file(22304));
  EXPECT_FALSE(takes_home_from_environment(22907));
  EXPECT_TRUE(takes_home_from_environment(23003));
}

TEST(NcclRules, AReleaseIsWrittenAsNcclWritesIt) {
  EXPECT_EQ(release_text(22809), "2.28.9");
  EXPECT_EQ(release_text(21801), "2.18.1");
  EXPECT_EQ(release_text(kUnknownRelease), "2.?");
}

}  // namespace
}  // namespace tombolo::doctor
