// What stands for a call's buffers in host memory, by itself: kernels that do not end.
#include <gtest/gtest.h>

#include "collectives/gpu/device_memory.h"
#include "collectives/gpu/staged.h"
#include "collectives/testing/on_gpu.h"

namespace tombolo::collectives::gpu {
namespace {

using namespace test;

class StagedOnGpu : public CollectivesOnGpu {
 protected:
  static constexpr std::size_t kCount = 1000, kBytes = kCount * sizeof(float);

  /// One whose buffer has been read, with a kernel under way on it.
  static std::unique_ptr<Staged> with_kernel(const std::shared_ptr<Staging>& staging, std::byte* device) {
    Buffer buffer{"send", device, {{0, kBytes}}, {{0, kBytes}}};
    auto made = std::make_unique<Staged>(staging, 0, std::vector{buffer}, nullptr, 1);
    for (int i = 0; !made->is_ready(); ++i) {
      if (i == 10'000 || !made->failure().empty()) return nullptr;
      made->progress();
    }
    made->take_scratch(kBytes);
    cuda().set_pace(PretendedPace::kNever);
    std::byte* const host = made->host(device);
    const Reduction sum{made->scratch(), host, host, kCount, DataType::kFloat32};
    return made->reducer()->start(sum, 7) ? std::move(made) : nullptr;
  }
};

TEST_F(StagedOnGpu, SaysWhichKernelItWaitsFor) {
  start({.pace = PretendedPace::kEarly});
  const auto staging = std::make_shared<Staging>(program_driver());
  test::Buffer buffer(kBytes, true);
  const auto staged = with_kernel(staging, buffer.data());
  ASSERT_NE(staged, nullptr);
  EXPECT_TRUE(staged->is_moving());
  EXPECT_EQ(staged->reducer()->next_done(), std::nullopt);
  EXPECT_EQ(staged->describe_wait(), "kernel tombolo_reduce_float (sum, 4000 bytes) on GPU 0");
  cuda().set_pace(PretendedPace::kEarly);
  EXPECT_EQ(staged->reducer()->next_done(), 7u);
  EXPECT_FALSE(staged->is_moving());
  EXPECT_EQ(staged->describe_wait(), "");
}

TEST_F(StagedOnGpu, TakesNoMoreKernelsThanMayBeUnderWay) {
  start({.pace = PretendedPace::kEarly});
  const auto staging = std::make_shared<Staging>(program_driver());
  test::Buffer buffer(kBytes, true);
  const auto staged = with_kernel(staging, buffer.data());
  ASSERT_NE(staged, nullptr);
  std::byte* const host = staged->host(buffer.data());
  const Reduction sum{staged->scratch(), host, host, kCount, DataType::kFloat32};
  std::uint32_t taken = 1;
  while (taken < 100 && staged->reducer()->start(sum, 7 + taken)) ++taken;
  EXPECT_LT(taken, 100u) << "the processor does the rest";
  cuda().set_pace(PretendedPace::kRandom);
  std::vector<std::uint32_t> done;
  for (int i = 0; done.size() < taken && i < 100'000; ++i)
    if (const auto step = staged->reducer()->next_done()) done.push_back(*step);
  ASSERT_EQ(done.size(), taken);
  for (std::uint32_t i = 0; i < taken; ++i) EXPECT_EQ(done[i], 7 + i);
}

TEST_F(StagedOnGpu, RefusesWhatAKernelCannotTouch) {
  start({.pace = PretendedPace::kEarly});
  const auto staging = std::make_shared<Staging>(program_driver());
  test::Buffer buffer(kBytes, true);
  const auto staged = with_kernel(staging, buffer.data());
  ASSERT_NE(staged, nullptr);
  std::byte* const host = staged->host(buffer.data());
  const auto starts = [&](std::byte* target, std::size_t count) {
    return staged->reducer()->start({target, host, host, count, DataType::kFloat32}, 0);
  };
  Bytes plain(kBytes);
  EXPECT_FALSE(starts(plain.data(), kCount));
  EXPECT_FALSE(starts(staged->scratch() + 1, kCount - 1)) << "not aligned";
  EXPECT_FALSE(starts(staged->scratch() + 4, 2 * kCount)) << "beyond the end";
  EXPECT_TRUE(starts(staged->scratch() + 4, kCount - 1));
  cuda().set_pace(PretendedPace::kEarly);
}

/// A kernel that does not end in time keeps its memory, which nobody else gets, and nothing is undone.
TEST_F(StagedOnGpu, AKernelThatDoesNotEndKeepsItsMemory) {
  start({.pace = PretendedPace::kEarly});
  auto staging = std::make_shared<Staging>(program_driver(), std::chrono::milliseconds(1));
  test::Buffer buffer(kBytes, true);
  auto staged = with_kernel(staging, buffer.data());
  ASSERT_NE(staged, nullptr);
  std::byte* const block = staged->host(buffer.data());
  std::byte* const scratch = staged->scratch();
  staged.reset();
  for (int i = 0; i < 4; ++i) {
    const auto other = staging->take(0, kBytes);
    EXPECT_NE(other.data, block);
    EXPECT_NE(other.data, scratch);
  }
  staging.reset();
  EXPECT_EQ(cuda().holdings().modules, 1);
  EXPECT_GE(cuda().holdings().host_allocations, 2);
  for (const std::string& breach : cuda().breaches()) ADD_FAILURE() << breach;
  cuda().set_pace(PretendedPace::kEarly);
  cuda().reset();  // what it keeps is kept for good
}

}  // namespace
}  // namespace tombolo::collectives::gpu
