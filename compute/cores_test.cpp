#include "compute/cores.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <vector>

namespace tombolo::compute {
namespace {

namespace fs = std::filesystem;

class ProcessorQuota : public testing::Test {
 protected:
  ProcessorQuota() {
    std::string pattern = (fs::temp_directory_path() / "tombolo-cores-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~ProcessorQuota() override { fs::remove_all(root_); }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text << "\n";
  }
  fs::path root_;
};

TEST_F(ProcessorQuota, IsUnlimitedWhereNoGroupLimits) {
  EXPECT_TRUE(std::isinf(processor_quota(root_)));
  write("proc/self/cgroup", "0::/user.slice/job");
  EXPECT_TRUE(std::isinf(processor_quota(root_)));
  write("sys/fs/cgroup/user.slice/job/cpu.max", "max 100000");
  EXPECT_TRUE(std::isinf(processor_quota(root_)));
}

TEST_F(ProcessorQuota, IsTheLeastOfTheGroupsAbove) {
  write("proc/self/cgroup", "0::/user.slice/job");
  write("sys/fs/cgroup/user.slice/job/cpu.max", "150000 100000");
  EXPECT_DOUBLE_EQ(processor_quota(root_), 1.5);
  write("sys/fs/cgroup/user.slice/cpu.max", "25000 50000");
  EXPECT_DOUBLE_EQ(processor_quota(root_), 0.5);
}

TEST_F(ProcessorQuota, OfAContainerIsThatOfItsRoot) {
  write("proc/self/cgroup", "0::/");
  write("sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_DOUBLE_EQ(processor_quota(root_), 2);
}

TEST_F(ProcessorQuota, IsReadFromTheOldHierarchyToo) {
  write("proc/self/cgroup", "7:cpuset:/job\n4:cpu,cpuacct:/job\n0::/");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000");
  EXPECT_TRUE(std::isinf(processor_quota(root_)));
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "75000");
  EXPECT_DOUBLE_EQ(processor_quota(root_), 0.75);
}

TEST(UsableCores, AreSomeAndNotMoreThanTheProcessors) {
  EXPECT_GT(usable_cores(), 0);
  EXPECT_LE(usable_cores(), usable_processors());
}

ProcessorSet set_of(std::initializer_list<std::size_t> processors) {
  ProcessorSet made;
  for (const std::size_t one : processors) made.set(one);
  return made;
}

bool enough(const std::vector<ProcessorSet>& threads) {
  return has_processor_for_each(threads);
}

TEST(Processors, OfThisThreadAreThoseThatItMayUse) {
  EXPECT_GT(own_processors().count(), 0U);
  EXPECT_EQ(static_cast<int>(own_processors().count()), usable_processors());
}

TEST(Processors, AreEnoughForThreadsThatAreBoundToDifferentOnes) {
  EXPECT_TRUE(enough({}));
  EXPECT_TRUE(enough({set_of({0}), set_of({1})}));
  EXPECT_TRUE(enough({set_of({1023}), set_of({7})}));
  EXPECT_FALSE(enough({set_of({1}), set_of({1})}));
  EXPECT_FALSE(enough({set_of({1}), set_of({1}), set_of({2, 3, 4})})) << "whatever there is for the third";
  EXPECT_FALSE(enough({set_of({})}));
}

TEST(Processors, AreEnoughForAsManyThreadsThatMayUseAll) {
  EXPECT_TRUE(enough(std::vector(64, ProcessorSet().set())));
  EXPECT_TRUE(enough(std::vector(2, set_of({3, 5}))));
  EXPECT_FALSE(enough(std::vector(3, set_of({3, 5}))));
}

TEST(Processors, AreGivenToThoseThatCanUseNoOther) {
  EXPECT_TRUE(enough({set_of({0, 1, 2}), set_of({0, 1}), set_of({0})}));
  EXPECT_TRUE(enough({set_of({0, 1}), set_of({1, 2}), set_of({2, 3}), set_of({0})})) << "all others change";
  EXPECT_FALSE(enough({set_of({0, 1}), set_of({0, 1, 2, 3, 4}), set_of({0}), set_of({1})}));
}

}  // namespace
}  // namespace tombolo::compute
