// Messages of all sizes at once over staged connections: loopback TCP, UCX, shared memory and memory.
#include <gtest/gtest.h>

#include <future>

#include "net_plugin/testing/random_traffic.h"

namespace tombolo::net_plugin::gpu {
namespace {

struct Case {
  TestedBackend backend;
  PretendedPace pace = PretendedPace::kRandom;
  std::size_t buffer_bytes = std::size_t{64} << 20;
  std::size_t copies = 4;
};

void PrintTo(const Case& tested, std::ostream* stream) {
  *stream << tested.backend.name;
}

class StagedTraffic : public StagedConnections, public ::testing::WithParamInterface<Case> {};

TEST_P(StagedTraffic, ArrivesByteForByteBetweenHostAndGpuMemoryOfEitherEnd) {
  const Case& tested = GetParam();
  if (const std::string why = why_not(tested.backend); !why.empty()) GTEST_SKIP() << why;
  const unsigned seed = test_seed();
  PretendedCudaOptions options;
  options.gpus = 2;
  options.pace = tested.pace;
  options.seed = seed;
  start(options, tested.buffer_bytes, tested.copies);
  auto ends = connect(tested.backend, Directions::kBoth, Directions::kBoth);
  Traffic there(*ends.from, *ends.to, 40, seed, 2), back(*ends.to, *ends.from, 40, seed + 1, 2);
  cuda().forbid_making(true);
  for (auto deadline = soon(); !there.over() || !back.over();) {
    there.turn();
    back.turn();
    if (HasFatalFailure()) return;
    ASSERT_FALSE(deadline.passed());
  }
  EXPECT_LE(cuda().most_copies_to_host(), 4 * tested.copies);  // two GPUs, with memory of two kinds
  EXPECT_LE(cuda().most_copies_to_device(), 4 * tested.copies);
  EXPECT_GT(cuda().copies(), 10U);
  if (tested.buffer_bytes == 0) {
    EXPECT_EQ(staging_->pool().pieces(), staging_->pool().reserved()) << "exactly the minimum";
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, StagedTraffic,
    testing::Values(Case{memory()}, Case{memory(), PretendedPace::kLate, 0, 1}, Case{tcp()},
                    Case{tcp(), PretendedPace::kEarly}, Case{tcp(), PretendedPace::kLate, 0, 1},
                    Case{shm(TestedBackend::Shm::kFetch)},
                    Case{shm(TestedBackend::Shm::kFetch), PretendedPace::kLate, 0, 2},
                    Case{shm(TestedBackend::Shm::kRing)}, Case{ucx()}, Case{ucx(), PretendedPace::kEarly},
                    Case{ucx(), PretendedPace::kLate, 0, 1}),
    [](const auto& one) {
      const Case& tested = one.param;
      return fmt::format(
          "{}{}{}", tested.backend.name,
          tested.pace == PretendedPace::kEarly  ? "_early"
          : tested.pace == PretendedPace::kLate ? "_late"
                                                : "",
          tested.buffer_bytes == 0 ? fmt::format("_least_memory_{}_copies", tested.copies) : "");
    });

TEST_F(StagedConnections, ThreadsShareCopierAndPool) {
  const unsigned seed = test_seed();
  PretendedCudaOptions options;
  options.seed = seed;
  start(options, std::size_t{4} << 20, 3);
  std::vector<Ends> all;
  std::vector<std::future<void>> threads;
  for (int i = 0; i < 4; ++i) all.push_back(connect(tcp()));
  for (unsigned i = 0; i < all.size(); ++i) {
    threads.push_back(std::async(std::launch::async, [&ends = all[i], seed, i] {
      Traffic traffic(*ends.from, *ends.to, 15, seed + i, 1);
      for (auto deadline = soon(); !traffic.over() && !deadline.passed() && !HasFatalFailure();)
        traffic.turn();
      EXPECT_TRUE(traffic.over());
      cuda().check_thread();
    }));
  }
  for (auto& thread : threads) thread.get();
  EXPECT_LE(cuda().most_copies_to_host(), 6U);  // with memory of two kinds
  EXPECT_LE(cuda().most_copies_to_device(), 6U);
}

}  // namespace
}  // namespace tombolo::net_plugin::gpu
