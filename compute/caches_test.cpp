#include "compute/caches.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace tombolo::compute {
namespace {

namespace fs = std::filesystem;

class LastLevelCaches : public testing::Test {
 protected:
  LastLevelCaches() {
    std::string pattern = (fs::temp_directory_path() / "tombolo-caches-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    fs::create_directories(root_ / kFolder);
  }
  ~LastLevelCaches() override { fs::remove_all(root_); }
  void write(const char* name, const char* text) { std::ofstream(root_ / kFolder / name) << text << "\n"; }

  static constexpr const char* kFolder = "sys/devices/system/cpu/cpu0/cache/index3";
  fs::path root_;
};

TEST_F(LastLevelCaches, AreAsManyAsTheProcessorsNeed) {
  write("size", "32768K");
  write("shared_cpu_map", "00000000,000000ff");
  EXPECT_EQ(last_level_caches(2, root_).bytes, std::size_t{32} << 20) << "fewer than share one";
  EXPECT_EQ(last_level_caches(8, root_).bytes, std::size_t{32} << 20);
  EXPECT_EQ(last_level_caches(20, root_).bytes, std::size_t{96} << 20);
  EXPECT_EQ(last_level_caches(20, root_).count, 3);
  EXPECT_EQ(last_level_caches(8, root_).count, 1);
}

TEST_F(LastLevelCaches, AreUnknownWhereTheKernelDoesNotSay) {
  EXPECT_EQ(last_level_caches(8, root_).bytes, 0U);
  write("size", "32768K");
  EXPECT_EQ(last_level_caches(8, root_).bytes, 0U);
  write("shared_cpu_map", "0");
  EXPECT_EQ(last_level_caches(8, root_).bytes, 0U);
  write("shared_cpu_map", "3");
  write("size", "large");
  EXPECT_EQ(last_level_caches(8, root_).bytes, 0U);
}

}  // namespace
}  // namespace tombolo::compute
