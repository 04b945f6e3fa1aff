#include "transport/polling.h"

#include <gtest/gtest.h>

#include <thread>

#include "transport/testing/forwarding_kernel.h"

namespace tombolo::transport {
namespace {

class CountingKernel final : public test::ForwardingKernel {
 public:
  int sched_yield() noexcept override {
    ++yields;
    return 0;
  }
  unsigned yields = 0;
};

TEST(Polling, YieldsOnlyAfterManyCallsInVain) {
  CountingKernel counting;
  const KernelInPlace in_place(counting);
  Polling polling;
  for (unsigned call = 1; call < Polling::kPatience; ++call) polling.note(false);
  EXPECT_EQ(counting.yields, 0U);
  polling.note(false);
  EXPECT_EQ(counting.yields, 1U);
  for (unsigned call = 0; call < 10 * Polling::kBetweenYields; ++call) polling.note(false);
  EXPECT_EQ(counting.yields, 11U);
}

TEST(Polling, ACallThatMovesSomethingBeginsAnew) {
  CountingKernel counting;
  const KernelInPlace in_place(counting);
  Polling polling;
  for (unsigned call = 0; call < 100 * Polling::kPatience; ++call)
    polling.note(call % (Polling::kPatience - 1) == 0);
  EXPECT_EQ(counting.yields, 0U);
}

TEST(Polling, EachThreadCountsItsOwn) {
  CountingKernel counting;
  const KernelInPlace in_place(counting);
  const auto one_short = [] {
    Polling::of_thread().note(true);
    for (unsigned call = 1; call < Polling::kPatience; ++call) Polling::of_thread().note(false);
  };
  one_short();
  std::thread(one_short).join();
  EXPECT_EQ(counting.yields, 0U);
  Polling::of_thread().note(false);
  EXPECT_EQ(counting.yields, 1U);
}

}  // namespace
}  // namespace tombolo::transport
