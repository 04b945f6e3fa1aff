// What a waiting rank leaves to others of its processor. Ranks are threads.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "collectives/engine/communicator.h"
#include "collectives/testing/test_support.h"
#include "transport/testing/forwarding_kernel.h"

namespace tombolo::collectives {
namespace {

using namespace test;

class CountedYields final : public transport::test::ForwardingKernel {
 public:
  int sched_yield() noexcept override {
    ++count;
    return ForwardingKernel::sched_yield();
  }
  std::atomic<int> count{0};
};

class WaitingRank : public testing::TestWithParam<Progress> {};

INSTANTIATE_TEST_SUITE_P(Everywhere, WaitingRank, testing::Values(Progress::kCaller, Progress::kThread),
                         [](const auto& one) {
                           return one.param == Progress::kCaller ? "Caller" : "Thread";
                         });

// More often than it does before the wait that counts time begins.
TEST_P(WaitingRank, YieldsItsProcessorWhileItSpins) {
  constexpr int kMany = 2000;
  CountedYields kernel;
  const transport::KernelInPlace in_place(kernel);
  const auto many = [&] {
    const auto late = Deadline::after(std::chrono::seconds(10));
    while (kernel.count < kMany && !late.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return kernel.count >= kMany;
  };
  expect_fine(run_ranks(
      "AA",
      [&](Communicator& all) {
        all.barrier();
        kernel.count = 0;
        all.barrier();
        if (all.rank() == 1) {
          EXPECT_TRUE(many());
          return all.barrier();
        }
        const Work barrier = all.start({});
        if (GetParam() == Progress::kThread) {
          EXPECT_TRUE(many());
        }
        all.wait(barrier);
      },
      [](Options& options) {
        options.router.host.name = "host";
        options.progress = GetParam();
        options.spin = std::chrono::seconds(20);
      }));
}

}  // namespace
}  // namespace tombolo::collectives
