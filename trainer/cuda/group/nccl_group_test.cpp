// Loading NCCL, and groups over it, with a fake library that does what these tests tell it.
#include "trainer/cuda/group/nccl_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "trainer/cuda/parameters.h"
#include "trainer/cuda/testing/fake_nccl.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer::cuda {
namespace {

std::string library(const char* name) {
  return fmt::format("{}/lib{}.so", TOMBOLO_FAKE_NCCL_FOLDER, name);
}

TEST(NcclLibrary, SaysWhatItIs) {
  const NcclLibrary nccl(library("fake_nccl"));
  EXPECT_EQ(nccl.version(), 22809);
  EXPECT_EQ(nccl.describe(), fmt::format("NCCL 2.28.9 ({})", library("fake_nccl")));
}

TEST(NcclLibrary, WhatCannotBeLoadedIsRefusedWithTheReasonAndARemedy) {
  test::expect_refusal(
      [] { NcclLibrary("/nowhere/libnccl.so.2"); },
      {"NCCL cannot be loaded", "/nowhere/libnccl.so.2", "TOMBOLO_NCCL_LIBRARY", "--reduce engine"},
      Cause::kUnsupported);
}

TEST(NcclLibrary, AnotherLibraryAndAnIncompleteOneAreRefusedByTheMissingFunction) {
  test::expect_refusal([] { NcclLibrary("libm.so.6"); }, {"libm.so.6", "ncclGetVersion", "not NCCL"},
                       Cause::kUnsupported);
  test::expect_refusal([] { NcclLibrary(library("fake_nccl_incomplete")); },
                       {"ncclCommGetAsyncError", "2.18.0"}, Cause::kUnsupported);
}

TEST(NcclLibrary, AnOldVersionIsRefusedByNumber) {
  test::expect_refusal([] { NcclLibrary(library("fake_nccl_old")); }, {"version 2.17.1", "2.18.0 or later"},
                       Cause::kUnsupported);
}

TEST(NcclLibrary, TheParameterNamesTheSystemsByDefault) {
  EXPECT_EQ(kNcclLibraryParameter.default_value, "libnccl.so.2");
}

class NcclGroups : public testing::Test {
 protected:
  NcclGroups()
      : nccl_(library("fake_nccl")),
        opened_(*DynamicLibrary::open({library("fake_nccl").c_str()})),
        fake_(fake()) {
    fake_ = FakeNccl{};
  }

  std::unique_ptr<NcclGroup> group(Duration deadline = std::chrono::seconds(60)) {
    return std::make_unique<NcclGroup>(nccl_, GroupId{}, GroupMember{1, 4, deadline}, &stream_,
                                       "GPU 3 (a pretended one)", [this] { ++made_current_; });
  }

  FakeNccl& fake() {
    FakeNcclFunction* function = nullptr;
    EXPECT_TRUE(opened_.find(kFakeNcclFunction, function));
    return *function();
  }

  NcclLibrary nccl_;
  DynamicLibrary opened_;
  FakeNccl& fake_;
  int stream_ = 0;
  std::atomic<int> made_current_{0};
  float numbers_[3] = {};
};

TEST_F(NcclGroups, JoinsWithoutBlockingSumsOnItsStreamAndLeavesInOrder) {
  fake_.looks = 3;
  {
    const auto joined = group();
    EXPECT_EQ(fake_.size, 4);
    EXPECT_EQ(fake_.rank, 1);
    EXPECT_EQ(fake_.blocking, 0);
    EXPECT_EQ(fake_.version, 21800U);
    joined->all_reduce(numbers_, 3);
    EXPECT_EQ(fake_.looks_left, 0) << "a call that is in progress is not over";
    EXPECT_EQ(fake_.count, 3U);
    EXPECT_EQ(fake_.type, kNcclFloat32);
    EXPECT_EQ(fake_.operation, kNcclSum);
    EXPECT_EQ(fake_.stream, &stream_);
    joined->check();
  }
  EXPECT_EQ(fake_.finalized, 1);
  EXPECT_EQ(fake_.destroyed, 1);
  EXPECT_EQ(fake_.aborted, 0);
  EXPECT_GE(made_current_, 2);
}

TEST_F(NcclGroups, AnErrorAtOnceHasNcclsWords) {
  fake_.init = NcclResult::kSystemError;
  fake_.last_error = "socket: no route to host";
  test::expect_refusal([&] { group(); },
                       {"GPU 3 (a pretended one): rank 1 of 4: joining the group", "unhandled system error",
                        "no route to host"},
                       Cause::kSystem);
  EXPECT_EQ(fake_.aborted, 0) << "NCCL has made no communicator then";
}

TEST_F(NcclGroups, RanksThatDoNotComeAreATimeout) {
  fake_.looks = -1;
  test::expect_refusal([&] { group(std::chrono::milliseconds(20)); },
                       {"rank 1 of 4: joining the group", "not done after", "another rank"}, Cause::kTimeout);
  EXPECT_EQ(fake_.aborted, 1);
  EXPECT_EQ(fake_.destroyed, 0);
}

TEST_F(NcclGroups, AnErrorThatComesLaterIsFoundAndTheGroupGivenUp) {
  const auto joined = group();
  joined->all_reduce(numbers_, 3);
  fake_.state = NcclResult::kRemoteError;
  fake_.last_error = "rank 2 has gone";
  test::expect_refusal([&] { joined->check(); },
                       {"rank 1 of 4: sums of gradients", "remote process exited", "rank 2 has gone"},
                       Cause::kRemote);
  EXPECT_EQ(fake_.aborted, 1);
  test::expect_refusal([&] { joined->all_reduce(numbers_, 3); }, {"given up", "rank 2 has gone"},
                       Cause::kAborted);
  EXPECT_EQ(fake_.sums, 1) << "a communicator that was aborted must not be used";
}

TEST_F(NcclGroups, AnotherThreadEndsAWaitWithoutItsDeadline) {
  const auto joined = group(std::chrono::hours(1));
  fake_.looks = -1;
  std::thread other([&] { joined->abort("training was given up"); });
  test::expect_refusal([&] { joined->all_reduce(numbers_, 3); }, {"training was given up"}, Cause::kAborted);
  other.join();
  EXPECT_EQ(fake_.aborted, 1);
}

TEST_F(NcclGroups, AfterAnAbortTheNextLookFindsIt) {
  const auto joined = group();
  joined->abort("training was given up");
  test::expect_refusal([&] { joined->check(); }, {"rank 1 of 4", "training was given up"}, Cause::kAborted);
  EXPECT_EQ(fake_.aborted, 1);
}

}  // namespace
}  // namespace tombolo::trainer::cuda
