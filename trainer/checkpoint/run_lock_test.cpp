#include "trainer/checkpoint/run_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "base/descriptor.h"
#include "base/temporary_folder.h"
#include "trainer/testing/expect_refusal.h"
#include "trainer/testing/faulty_files.h"

namespace tombolo::trainer {
namespace {

using test::expect_refusal;

constexpr Duration kNone = Duration::zero();
constexpr Duration kLong = std::chrono::seconds(60);

class RunLockTest : public testing::Test {
 protected:
  std::string path() const { return folder_.file(kLockName); }
  std::string folder() const { return folder_.path().string(); }
  std::string process() const { return fmt::format("process {} on ", ::getpid()); }
  void expect_held() {
    expect_refusal([&] { RunLock(folder(), disk_, kNone, log_); },
                   {("--checkpoint " + folder()).c_str(), "another run", process().c_str(), " since 20"});
  }

  TemporaryFolder folder_;
  FileSystem disk_;
  std::string logged_;
  Log log_{LogLevel::kInfo, [this](LogLevel level, std::string_view text) {
             logged_ += fmt::format("{}: {}\n", log_level_name(level), text);
           }};
};

TEST_F(RunLockTest, ASecondRunIsToldWhoHoldsTheFolder) {
  {
    const RunLock first(folder(), disk_, kNone, log_);
    EXPECT_TRUE(first.held());
    expect_held();
    expect_held();  // a refusal takes nothing away
  }
  EXPECT_TRUE(RunLock(folder(), disk_, kNone, log_).held());
  EXPECT_EQ(logged_, "");
}

TEST_F(RunLockTest, OtherFoldersAreFree) {
  const TemporaryFolder other;
  const RunLock first(folder(), disk_, kNone, log_), second(other.path().string(), disk_, kNone, log_);
  EXPECT_TRUE(first.held() && second.held());
}

TEST_F(RunLockTest, ARunThatIsEndingIsWaitedFor) {
  std::optional<RunLock> first(std::in_place, folder(), disk_, kNone, log_);
  std::promise<void> refused;
  bool promised = false;
  class Watched : public FileSystem {
   public:
    explicit Watched(std::function<void()> after) : after_(std::move(after)) {}
    int lock(int descriptor) override {
      const int error = FileSystem::lock(descriptor);
      if (error == EWOULDBLOCK) after_();
      return error;
    }

   private:
    std::function<void()> after_;
  } watched([&] {
    if (!std::exchange(promised, true)) refused.set_value();
  });
  std::thread ending([&] {
    refused.get_future().wait();
    first.reset();
  });
  EXPECT_TRUE(RunLock(folder(), watched, kLong, log_).held());
  ending.join();
  EXPECT_TRUE(promised);
}

TEST_F(RunLockTest, AKilledProcessLeavesItFree) {
  int told[2];
  ASSERT_EQ(::pipe2(told, O_CLOEXEC), 0);
  const Descriptor read_end(told[0]);
  Descriptor write_end(told[1]);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const RunLock lock(folder(), disk_, kNone, Log());
    const char word = lock.held() ? 'y' : 'n';
    if (::write(write_end.get(), &word, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  write_end.reset();
  char word = 0;
  EXPECT_EQ(::read(read_end.get(), &word, 1), 1);
  EXPECT_EQ(word, 'y');
  expect_refusal([&] { RunLock(folder(), disk_, kNone, log_); },
                 {folder().c_str(), fmt::format("process {} on ", child).c_str()});
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(RunLock(folder(), disk_, kNone, log_).held());
}

TEST_F(RunLockTest, ItsDescriptorIsClosedOnExec) {
  class Seen : public FileSystem {
   public:
    int lock(int descriptor) override {
      flags = ::fcntl(descriptor, F_GETFD);
      return FileSystem::lock(descriptor);
    }
    int flags = 0;
  } seen;
  const RunLock lock(folder(), seen, kNone, log_);
  EXPECT_TRUE((seen.flags & FD_CLOEXEC) != 0) << seen.flags;
}

TEST_F(RunLockTest, WhereNothingCanBeLockedThatIsAWarning) {
  struct Case {
    const char* call;
    int error;
  };
  for (const Case& one : {Case{"lock", ENOLCK}, Case{"lock", EOPNOTSUPP}, Case{"open_to_update", EROFS},
                          Case{"open_to_update", EACCES}}) {
    logged_.clear();
    test::HookedFiles files(
        [&](std::string_view call, const std::string&) { return call == one.call ? one.error : 0; });
    EXPECT_FALSE(RunLock(folder(), files, kLong, log_).held()) << one.call;
    for (const std::string& words : {std::string("warning: " + path()), errno_text(one.error)})
      EXPECT_NE(logged_.find(words), std::string::npos) << logged_;
    // Nothing of the failed trial is in a later one's way.
    EXPECT_TRUE(RunLock(folder(), disk_, kNone, log_).held());
  }
}

TEST_F(RunLockTest, AFullDiskHidesTheOwnerButTheLockHolds) {
  test::HookedFiles files(
      [](std::string_view call, const std::string&) { return call == "write" ? ENOSPC : 0; });
  const RunLock lock(folder(), files, kNone, log_);
  EXPECT_TRUE(lock.held());
  EXPECT_NE(logged_.find("warning: " + path()), std::string::npos) << logged_;
  expect_refusal([&] { RunLock(folder(), disk_, kNone, log_); }, {folder().c_str(), "not written yet"});
}

TEST_F(RunLockTest, WhatElseLiesInTheFileIsQuotedSafely) {
  const RunLock lock(folder(), disk_, kNone, log_);
  folder_.write(kLockName, "\x1b[2J" + std::string(100000, 'x'));
  try {
    RunLock(folder(), disk_, kNone, log_);
    FAIL() << "locked twice";
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("\\x1b[2Jxxx"), std::string::npos);
    EXPECT_LT(what.size(), 2000U);
  }
}

}  // namespace
}  // namespace tombolo::trainer
