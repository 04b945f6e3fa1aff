#include "transport/ucx/closing_workers.h"

#include <gtest/gtest.h>

#include <thread>

#include "transport/testing/control_channels.h"

namespace tombolo::transport::ucx {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

class UcxClosingWorkers : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string problem = test::why_no_ucx(); !problem.empty()) GTEST_SKIP() << problem;
    std::string problem;
    context_ = std::make_shared<Context>(UcxFunctions::load(&problem), "", "self,tcp");
  }
  std::unique_ptr<Worker> worker() { return std::make_unique<Worker>(context_); }
  static bool comes_to(ClosingWorkers& closing, std::size_t count) {
    for (const auto deadline = test::soon(); closing.count() != count;) {
      if (deadline.passed()) return false;
      std::this_thread::yield();
    }
    return true;
  }
  std::shared_ptr<Context> context_;
};

TEST_F(UcxClosingWorkers, AreKeptUntilTheirPeerEndsTheChannel) {
  ClosingWorkers closing;
  auto [mine, theirs] = test::local_pair();
  auto [my_other, their_other] = test::local_pair();
  closing.add(std::move(mine), worker(), minutes(10));
  closing.add(std::move(my_other), worker(), minutes(10));
  EXPECT_EQ(closing.count(), 2u);
  // What the peer still says is no end.
  ASSERT_EQ(send(theirs.get(), "goodbye", 7, MSG_NOSIGNAL), 7);
  their_other.reset();
  EXPECT_TRUE(comes_to(closing, 1));
  theirs.reset();
  EXPECT_TRUE(comes_to(closing, 0));
}

TEST_F(UcxClosingWorkers, AreKeptNoLongerThanTheirTime) {
  ClosingWorkers closing;
  auto [mine, theirs] = test::local_pair();
  auto [my_other, their_other] = test::local_pair();
  closing.add(std::move(mine), worker(), milliseconds(50));
  closing.add(std::move(my_other), worker(), minutes(10));
  EXPECT_TRUE(comes_to(closing, 1)) << "the peer holds its end open";
  their_other.reset();
  EXPECT_TRUE(comes_to(closing, 0));
}

TEST_F(UcxClosingWorkers, EndWithTheProcessThoughAPeerHoldsItsEndOpen) {
  auto [mine, theirs] = test::local_pair();
  const auto deadline = Deadline::after(minutes(1));
  {
    ClosingWorkers closing;
    closing.add(std::move(mine), worker(), minutes(10));
  }
  EXPECT_FALSE(deadline.passed());
}

TEST_F(UcxClosingWorkers, TakeSomeFromManyThreads) {
  ClosingWorkers closing;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        auto [mine, theirs] = test::local_pair();
        closing.add(std::move(mine), worker(), minutes(10));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(comes_to(closing, 0));
}

}  // namespace
}  // namespace tombolo::transport::ucx
