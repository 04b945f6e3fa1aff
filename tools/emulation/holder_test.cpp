// A holder without namespaces, which every machine permits; tests/netns/ has those with.
#include "tools/emulation/holder.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "base/temporary_folder.h"

namespace tombolo::emulation {
namespace {

bool ends_within_a_minute(const Holder& holder) {
  pollfd ended{holder.alive.get(), POLLIN, 0};
  return ::poll(&ended, 1, 60'000) == 1;
}

class HolderOfAFolder : public ::testing::Test {
 protected:
  HolderOfAFolder() { folder_.write("run/file", "x"); }
  ~HolderOfAFolder() override { stop_holder(holder_); }
  bool folder_is_there() const { return std::filesystem::exists(folder_.file("run")); }

  TemporaryFolder folder_;
  Holder holder_ = start_holder(Spec::from_text("two-clusters:rtt=1ms"), false, folder_.file("run"));
};

TEST_F(HolderOfAFolder, TakesTheFolderWithItWhenItIsStopped) {
  EXPECT_GT(holder_.pid, 0);
  EXPECT_FALSE(holder_.user_namespace);
  ASSERT_EQ(holder_.relays.size(), 1U);
  EXPECT_FALSE(holder_.relays[0]) << "without a network there is nothing to relay";
  EXPECT_TRUE(folder_is_there());
  const pid_t pid = holder_.pid;
  stop_holder(holder_);
  EXPECT_EQ(holder_.pid, -1);
  EXPECT_FALSE(folder_is_there());
  EXPECT_EQ(::kill(pid, 0), -1) << "it was waited for";
  stop_holder(holder_);  // which does nothing
}

TEST_F(HolderOfAFolder, IsBeyondTheReachOfCtrlC) {
  EXPECT_EQ(::getpgid(holder_.pid), holder_.pid) << "a signal to the terminal's group is not one to it";
}

TEST_F(HolderOfAFolder, TakesTheFolderWithItWhenItIsAskedToEnd) {
  ASSERT_EQ(::kill(holder_.pid, SIGTERM), 0);
  EXPECT_TRUE(ends_within_a_minute(holder_));
  stop_holder(holder_);
  EXPECT_FALSE(folder_is_there());
}

TEST_F(HolderOfAFolder, IsSeenToEndHoweverItEnds) {
  ASSERT_EQ(::kill(holder_.pid, SIGKILL), 0);
  EXPECT_TRUE(ends_within_a_minute(holder_));
  stop_holder(holder_);
  EXPECT_TRUE(folder_is_there()) << "only its owner can remove it now";
}

TEST(Holder, KeepsItsDescriptorsApart) {
  EXPECT_LT(namespace_descriptor(63), relay_descriptor(0)) << "64 hosts";
  EXPECT_LT(relay_descriptor(31), 200) << "32 relays, below the numbers of the move";
}

}  // namespace
}  // namespace tombolo::emulation
