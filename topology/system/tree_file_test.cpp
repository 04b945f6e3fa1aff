#include "topology/system/tree_file.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tombolo::topology {
namespace {

using Names = std::vector<std::string>;

TEST(TreeFile, FollowsLinksAsAFileSystemDoes) {
  TreeFile tree = TreeFile::parse(
      "# a comment\n"
      "[/sys/devices/pci0000:16/0000:17:00.0]\n"
      "numa_node = 1\n"
      "driver -> /sys/bus/pci/drivers/mlx5_core\n"
      "net/ib0/device -> ../../../0000:17:00.0\n"
      "net/ib0/uevent = A=1\\nB=\\\\2\n"
      "net/ib0/empty =\n"
      "sriov/\n"
      "/sys/class/net/ib0 -> ../../devices/pci0000:16/0000:17:00.0/net/ib0\n",
      "x");
  EXPECT_EQ(tree.text("/sys/class/net/ib0/device/numa_node"), "1");
  EXPECT_EQ(tree.text("/sys/class/net/ib0/uevent"), "A=1\nB=\\2");
  EXPECT_EQ(tree.text("/sys/class/net/ib0/empty"), "");
  EXPECT_EQ(tree.names("/sys/class/net/ib0/device"), (Names{"driver", "net", "numa_node", "sriov"}));
  EXPECT_EQ(tree.names("/sys/class/net/ib0/device/sriov"), Names{});
  EXPECT_EQ(tree.link("/sys/class/net/ib0/device/driver"), "/sys/bus/pci/drivers/mlx5_core");
  EXPECT_EQ(tree.real_path("/sys/class/net/ib0/device"), "/sys/devices/pci0000:16/0000:17:00.0");
  EXPECT_EQ(tree.real_path("/sys/class/net/ib0/device/driver"), std::nullopt) << "it leads nowhere";
  EXPECT_FALSE(tree.exists("/sys/class/net/ib1"));
  EXPECT_FALSE(tree.exists("/sys/class/net/ib0/uevent/below"));
  EXPECT_EQ(tree.text("/sys/class/net/ib0"), std::nullopt) << "a folder has no text";
}

TEST(TreeFile, EndsOnLinksInACircleAndOutOfTheTree) {
  TreeFile tree = TreeFile::parse("/a/b -> /a/c\n/a/c -> /a/b\n/up -> ../../../..\n/y -> /up/a\n", "x");
  EXPECT_FALSE(tree.exists("/a/b"));
  EXPECT_EQ(tree.real_path("/up"), "");
  EXPECT_EQ(tree.names("/y"), (Names{"b", "c"}));
}

TEST(TreeFile, NamesTheLineOfWhatItCannotRead) {
  auto refusal = [](std::string_view text) -> std::string {
    try {
      TreeFile::parse(text, "some.tree");
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
      return error.what();
    }
    ADD_FAILURE() << "accepted: " << text;
    return {};
  };
  EXPECT_NE(refusal("/a = 1\nnonsense\n").find("some.tree:2: expected \"name = text\""), std::string::npos);
  EXPECT_NE(refusal("/a = 1\n/a = 2\n").find("some.tree:2: \"/a\" is there already"), std::string::npos);
  EXPECT_NE(refusal("/a = 1\n/a/b = 2\n").find("lies below /a, which is no folder"), std::string::npos);
  EXPECT_NE(refusal("/a/../b = 2\n").find("has a \"..\""), std::string::npos);
  EXPECT_NE(refusal(" = 2\n").find("some.tree:1"), std::string::npos);
}

// A line of 64 KiB with a folder in every second byte took minutes, and gigabytes.
TEST(TreeFile, RefusesPathsThatNoKernelHas) {
  std::string path;
  while (path.size() < 4096) path += "/a";
  EXPECT_TRUE(TreeFile::parse(path.substr(0, path.size() - 2) + "/\n", "x").exists("/a/a/a"));
  const std::string longer = path + "/a/\n", link = "/l -> " + path + "/a\n", folder = "[" + path + "/a]\n";
  for (const std::string& text : {longer, link, folder}) {
    try {
      TreeFile::parse("/b = 1\n" + text, "x");
      ADD_FAILURE() << text.substr(0, 20);
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find("x:2: \""), std::string::npos) << what;
      EXPECT_NE(what.find("more than 4096 bytes"), std::string::npos) << what;
      EXPECT_LT(what.size(), 400U);
    }
  }
}

}  // namespace
}  // namespace tombolo::topology
