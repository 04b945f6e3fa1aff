#include "transport/rdma/registration_cache.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace tombolo::transport::rdma {
namespace {

/// Hands out registrations that nothing stands behind, and keeps account of them.
struct Registrar {
  std::set<ibv_mr*> live;
  std::vector<std::span<std::byte>> ranges;
  bool refuses = false;
  RegistrationCache cache{[this](std::span<std::byte> range) {
                            if (refuses) throw std::runtime_error("no more memory can be locked");
                            ranges.push_back(range);
                            return *live.insert(new ibv_mr{}).first;
                          },
                          [this](ibv_mr* registration) {
                            ASSERT_EQ(live.erase(registration), 1u);
                            delete registration;
                          }};
  std::array<std::byte, 4096> memory{};
  std::span<std::byte> part(std::size_t at, std::size_t size) { return std::span(memory).subspan(at, size); }
};

TEST(RegistrationCache, SharesOneRegistrationUntilItsLastHolderLetsGo) {
  Registrar registrar;
  ibv_mr* first = registrar.cache.acquire(registrar.part(0, 1000));
  EXPECT_EQ(registrar.cache.acquire(registrar.part(0, 1000)), first);
  EXPECT_EQ(registrar.cache.acquire(registrar.part(500, 500)), first) << "it covers the second half";
  EXPECT_EQ(registrar.ranges.size(), 1u);
  registrar.cache.release(first);
  registrar.cache.release(first);
  EXPECT_EQ(registrar.live.size(), 1u);
  registrar.cache.release(first);
  EXPECT_TRUE(registrar.live.empty());
  EXPECT_EQ(registrar.cache.size(), 0u);
}

TEST(RegistrationCache, NothingIsKeptBeyondItsHolders) {
  Registrar registrar;
  registrar.cache.release(registrar.cache.acquire(registrar.part(0, 100)));
  // The same addresses may be other memory by now.
  registrar.cache.release(registrar.cache.acquire(registrar.part(0, 100)));
  EXPECT_EQ(registrar.ranges.size(), 2u);
}

TEST(RegistrationCache, RegistersExactlyTheRangeSinceTheOtherEndCanReachAllOfIt) {
  Registrar registrar;
  ibv_mr* small = registrar.cache.acquire(registrar.part(100, 10));
  ibv_mr* large = registrar.cache.acquire(registrar.part(100, 11));
  ibv_mr* before = registrar.cache.acquire(registrar.part(99, 11));
  EXPECT_NE(small, large);
  EXPECT_NE(small, before);
  EXPECT_NE(large, before);
  EXPECT_EQ(registrar.ranges.front().data(), registrar.memory.data() + 100);
  EXPECT_EQ(registrar.ranges.front().size(), 10u);
  for (ibv_mr* one : {small, large, before}) registrar.cache.release(one);
}

TEST(RegistrationCache, AFailureLeavesNothingBehind) {
  Registrar registrar;
  registrar.refuses = true;
  EXPECT_THROW(registrar.cache.acquire(registrar.part(0, 10)), std::runtime_error);
  EXPECT_EQ(registrar.cache.size(), 0u);
  registrar.refuses = false;
  registrar.cache.release(registrar.cache.acquire(registrar.part(0, 10)));
}

TEST(RegistrationCache, MayBeUsedByManyThreads) {
  Registrar registrar;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (std::size_t turn = 0; turn < 500; ++turn)
        registrar.cache.release(registrar.cache.acquire(registrar.part((i + turn) % 8 * 100, 100)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(registrar.live.empty());
}

}  // namespace
}  // namespace tombolo::transport::rdma
