// Calls on GPU memory against the same calls on host memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>

#include "collectives/testing/gpu_calls.h"

namespace tombolo::collectives {
namespace {

using namespace test;
using test::Buffer;  // not that of a schedule

TEST_F(CollectivesOnGpu, GiveTheSameBytesAsOnHostMemory) {
  const unsigned seed = test_seed();
  for (const char* clusters : {"A", "AA", "AAB", "AABB"}) {
    start({.gpus = 2, .seed = seed});
    compare(clusters, false, seed, 60, 3000);
  }
}

TEST_F(CollectivesOnGpu, GiveTheSameBytesThroughTheHostsMemory) {
  const unsigned seed = test_seed();
  for (const char* clusters : {"AA", "AAA"}) {
    start({.gpus = 2, .seed = seed});
    compare(clusters, true, seed, 60, 3000);
  }
}

TEST_F(CollectivesOnGpu, AreCopiedInPiecesWhereTheyAreLarge) {
  start({.gpus = 2, .pace = PretendedPace::kLate, .seed = test_seed()});
  constexpr std::size_t kCount = (std::size_t{9} << 20) / sizeof(float) + 3;
  expect_fine(run("AA", [&](Communicator& communicator) {
    Buffer buffer(kCount * sizeof(float), true, communicator.rank());
    Bytes ones(kCount * sizeof(float));
    for (std::size_t i = 0; i < kCount; ++i)
      test::put(&ones[i * sizeof(float)], DataType::kFloat32, static_cast<double>(i % 100));
    buffer.write(ones);
    communicator.all_reduce(buffer.data(), buffer.data(), kCount, DataType::kFloat32, ReduceOp::kSum);
    const Bytes sums = buffer.read();
    for (std::size_t i = 0; i < kCount; ++i) {
      float sum = 0;
      std::memcpy(&sum, &sums[i * sizeof(float)], sizeof(float));
      ASSERT_EQ(sum, 2 * static_cast<float>(i % 100)) << i;
    }
  }));
  EXPECT_GT(cuda().most_copies_to_host(), 1u);
}

TEST_F(CollectivesOnGpu, SeveralAreUnderWayAmongThoseOnHostMemory) {
  const unsigned seed = test_seed();
  for (const bool thread : {false, true}) {
    start({.gpus = 2, .seed = seed});
    expect_fine(run(
        "AAB",
        [&](Communicator& communicator) {
          std::mt19937_64 common(seed), own(seed + static_cast<unsigned>(communicator.rank()));
          for (int round = 0; round < 5; ++round) {
            std::vector<std::unique_ptr<Plan>> plans;
            std::vector<std::unique_ptr<Made>> expected, made;
            std::vector<Work> works;
            std::vector<std::unique_ptr<std::atomic<int>>> told;
            for (int i = 0; i < 8; ++i) {
              plans.push_back(std::make_unique<Plan>(draw(common, own, communicator.rank(), 3, 2000)));
              expected.push_back(
                  std::make_unique<Made>(*plans.back(), false, false, 0, MemoryOf::kNoContext));
              communicator.run(expected.back()->call);
            }
            for (const auto& plan : plans) {
              const bool on_gpu = own() % 2 == 0;
              made.push_back(std::make_unique<Made>(*plan, on_gpu, on_gpu, communicator.rank() % 2,
                                                    MemoryOf::kPrimaryContext));
              if (common() % 4 == 0) {
                communicator.run(made.back()->call);
                continue;
              }
              works.push_back(communicator.start(made.back()->call));
              told.push_back(std::make_unique<std::atomic<int>>(0));
              communicator.when_done(works.back(), [&told = *told.back()](const Error* error) {
                told += error == nullptr ? 1 : 100;
              });
            }
            std::ranges::shuffle(works, common);
            for (const Work work : works) communicator.wait(work);
            for (const auto& one : told) EXPECT_EQ(*one, 1);
            for (std::size_t i = 0; i < made.size(); ++i)
              ASSERT_TRUE(made[i]->received() == expected[i]->received())
                  << collective_name(plans[i]->call.collective) << " #" << i << " of round " << round;
          }
        },
        false, [&](Options& options) { options.progress = thread ? Progress::kThread : Progress::kCaller; }));
  }
}

TEST_F(CollectivesOnGpu, MessagesArriveInOrderBetweenAnyMemory) {
  const unsigned seed = test_seed();
  start({.gpus = 2, .seed = seed});
  expect_fine(run("AB", [&](Communicator& communicator) {
    std::mt19937_64 own(seed + static_cast<unsigned>(communicator.rank()));
    constexpr int kMessages = 12;
    const auto content = [](int rank, int i) {
      return Bytes(static_cast<std::size_t>(1 + i * 977), static_cast<std::byte>(rank * 64 + i));
    };
    for (const int peer : {1 - communicator.rank(), communicator.rank()}) {
      std::vector<std::unique_ptr<Buffer>> sent, received;
      std::vector<Work> works;
      for (int i = 0; i < kMessages; ++i) {
        const Bytes bytes = content(communicator.rank(), i);
        sent.push_back(std::make_unique<Buffer>(bytes.size(), own() % 2 == 0));
        received.push_back(std::make_unique<Buffer>(bytes.size(), own() % 2 == 0, 1));
        sent.back()->write(bytes);
        works.push_back(communicator.start_send(sent.back()->data(), bytes.size(), peer));
        works.push_back(communicator.start_receive(received.back()->data(), bytes.size(), peer));
      }
      std::ranges::shuffle(works, own);
      for (const Work work : works) communicator.wait(work);
      for (int i = 0; i < kMessages; ++i)
        ASSERT_TRUE(received[static_cast<std::size_t>(i)]->read() == content(peer, i)) << i;
    }
    // and those that block
    Buffer buffer(1000, true);
    if (communicator.rank() == 0) {
      buffer.write(Bytes(1000, std::byte{9}));
      communicator.send(buffer.data(), 1000, 1);
    } else {
      communicator.receive(buffer.data(), 1000, 0);
      EXPECT_TRUE(buffer.read() == Bytes(1000, std::byte{9}));
    }
  }));
}

TEST_F(CollectivesOnGpu, ARankAloneSendsItselfAndFailsWithoutAReceive) {
  start({.seed = test_seed()});
  expect_fine(run("A", [&](Communicator& communicator) {
    Buffer from(5000, true), to(5000, true);
    from.write(Bytes(5000, std::byte{3}));
    const Work lost = communicator.start_send(from.data(), 5000, 0);
    EXPECT_THROW(communicator.wait(lost), Error);
    const Work send = communicator.start_send(from.data(), 5000, 0);
    const Work receive = communicator.start_receive(to.data(), 5000, 0);
    communicator.wait(receive);
    communicator.wait(send);
    EXPECT_TRUE(to.read() == Bytes(5000, std::byte{3}));
    const Work pending = communicator.start_receive(to.data(), 5000, 0);
    EXPECT_FALSE(communicator.test(pending));
    EXPECT_THROW(communicator.finalize(), Error) << "a receive is under way";
    EXPECT_THROW(communicator.wait(pending), Error);
  }));
}

TEST_F(CollectivesOnGpu, WhatAnEncodingLosesIsKeptInGpuMemory) {
  start({.seed = test_seed()});
  expect_fine(run(
      "AABB",
      [&](Communicator& communicator) {
        constexpr std::size_t kCount = 60'000, kBytes = kCount * sizeof(float);
        Bytes vector(kBytes);
        for (std::size_t i = 0; i < kCount; ++i)
          test::put(&vector[i * sizeof(float)], DataType::kFloat32,
                    0.37 * static_cast<double>((i + static_cast<std::size_t>(communicator.rank())) % 1000));
        Buffer host(kBytes, false), host_lost(kBytes, false), gpu(kBytes, true), gpu_lost(kBytes, true);
        host_lost.write(Bytes(kBytes));
        gpu_lost.write(Bytes(kBytes));
        for (int i = 0; i < 2; ++i) {
          for (Buffer* one : {&host, &gpu}) {
            one->write(vector);
            CollectiveCall call{Collective::kAllReduce, one->data(), one->data(), kCount, DataType::kFloat32};
            call.compression = Compression::kInt8;
            call.residual = reinterpret_cast<float*>(one == &host ? host_lost.data() : gpu_lost.data());
            communicator.run(call);
          }
          ASSERT_TRUE(gpu.read() == host.read());
          ASSERT_TRUE(gpu_lost.read() == host_lost.read());
          EXPECT_FALSE(host_lost.read() == Bytes(kBytes)) << "something was lost";
        }
      },
      false, [](Options& options) { options.algorithm = "two-level"; }));
}

}  // namespace
}  // namespace tombolo::collectives
