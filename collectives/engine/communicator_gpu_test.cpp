// Calls on GPU memory against the same calls on host memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>

#include "collectives/testing/on_gpu.h"

namespace tombolo::collectives {
namespace {

using namespace test;
using test::Buffer;  // not that of a schedule

/// A call that all ranks make alike, with what differs between them.
struct Plan {
  CollectiveCall call;
  bool in_place = false;
  Bytes send, residual;
  std::size_t send_bytes = 0, receive_bytes = 0;  ///< of the buffers; in place only the larger one exists
  std::size_t own = 0;                            ///< where the own part is in the buffer of all, in bytes
  bool receive_is_part = false;                   ///< in place: of the send buffer
};

/// Counts and offsets with gaps between the parts, in another order than the ranks'.
std::shared_ptr<const Parts> gapped(std::mt19937_64& random, std::vector<std::size_t> counts) {
  Parts parts{counts, std::vector<std::size_t>(counts.size())};
  std::vector<std::size_t> order(counts.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::shuffle(order, random);
  std::size_t at = random() % 3;
  for (const std::size_t rank : order) {
    parts.offsets[rank] = at;
    at += counts[rank] + random() % 3;
  }
  return std::make_shared<const Parts>(std::move(parts));
}

std::size_t extent(const Parts& parts) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < parts.counts.size(); ++i)
    if (parts.counts[i] > 0) end = std::max(end, parts.offsets[i] + parts.counts[i]);
  return end;
}

/// The same on every rank but for the data. `largest`: elements of a part.
Plan draw(std::mt19937_64& common, std::mt19937_64& own, int rank, int ranks, std::size_t largest) {
  Plan plan;
  CollectiveCall& call = plan.call;
  call.collective = kAllCollectives[common() % std::size(kAllCollectives)];
  call.type = test::kAllTypes[common() % std::size(test::kAllTypes)];
  call.op = test::kAllOps[common() % std::size(test::kAllOps)];
  call.root = static_cast<int>(common() % static_cast<unsigned>(ranks));
  const bool is_root = rank == call.root;
  const std::size_t element = size_of(call.type);
  const auto count = [&] { return common() % 4 == 0 ? common() % largest : common() % 20; };
  call.count = count();
  const bool parted = call.collective == Collective::kReduceScatter ||
                      call.collective == Collective::kAllGather || call.collective == Collective::kGather ||
                      call.collective == Collective::kScatter || call.collective == Collective::kAllToAll;
  plan.in_place = call.collective != Collective::kAllToAll && common() % 2 == 0;
  const auto all = static_cast<std::size_t>(ranks), me = static_cast<std::size_t>(rank);
  std::size_t whole = call.count * all, sent_whole = whole;
  plan.own = call.count * me * element;
  if (parted && common() % 2 == 0) {
    call.uneven = true;
    std::vector<std::size_t> counts(all), row(all), column(all);
    for (auto& one : counts) one = count();
    if (call.collective == Collective::kAllToAll) {
      std::vector<std::size_t> from_to(all * all);
      for (auto& one : from_to) one = count();
      for (std::size_t peer = 0; peer < all; ++peer) {
        row[peer] = from_to[me * all + peer];
        column[peer] = from_to[peer * all + me];
      }
      call.sent_parts = gapped(own, row);
      call.parts = gapped(own, column);
      sent_whole = extent(*call.sent_parts);
    } else {
      const auto parts = gapped(common, counts);
      call.count = counts[me];
      plan.own = parts->offsets[me] * element;
      const bool rooted = is_rooted(call.collective);
      if (!rooted || is_root) call.parts = parts;
    }
    if (call.parts) whole = extent(*call.parts);
    if (call.collective != Collective::kAllToAll) sent_whole = whole;
  }
  const std::size_t part = call.count * element;
  plan.send_bytes = plan.receive_bytes = part;
  switch (call.collective) {
    case Collective::kReduceScatter:
      plan.send_bytes = sent_whole * element;
      plan.receive_is_part = true;
      break;
    case Collective::kAllGather:
      plan.receive_bytes = whole * element;
      break;
    case Collective::kGather:
      if (is_root) plan.receive_bytes = whole * element;
      if (!is_root) plan.receive_bytes = 0;
      plan.in_place &= is_root;
      break;
    case Collective::kScatter:
      plan.send_bytes = is_root ? sent_whole * element : 0;
      plan.in_place &= is_root;
      plan.receive_is_part = is_root;
      break;
    case Collective::kAllToAll:
      plan.send_bytes = sent_whole * element;
      plan.receive_bytes = whole * element;
      break;
    case Collective::kReduce:
      if (!is_root) plan.receive_bytes = 0;
      plan.in_place &= is_root;
      break;
    case Collective::kBroadcast:
    case Collective::kAllReduce:
    case Collective::kBarrier:
      break;
  }
  if (is_reduction(call.collective) && call.op == ReduceOp::kSum && own() % 3 == 0) {
    std::byte factor[8];
    test::put(factor, call.type, 2);
    call.factor = Factor::at(factor, call.type);
  }
  plan.send.resize(plan.send_bytes);
  for (std::size_t at = 0; at < plan.send_bytes; at += element)
    test::put(plan.send.data() + at, call.type, static_cast<double>(own() % 7));
  return plan;
}

/// Where the buffers of a call are, and what they held after it.
struct Made {
  std::unique_ptr<Buffer> send, receive;
  CollectiveCall call;
  const Plan* plan = nullptr;

  Made(const Plan& of, bool send_on_gpu, bool receive_on_gpu, int gpu, MemoryOf memory)
      : call(of.call), plan(&of) {
    if (!of.in_place) {
      send = std::make_unique<Buffer>(of.send_bytes, send_on_gpu, gpu, memory);
      receive = std::make_unique<Buffer>(of.receive_bytes, receive_on_gpu, gpu, memory);
      send->write(of.send);
      call.send = send->data();
      call.receive = receive->data();
      return;
    }
    receive =
        std::make_unique<Buffer>(std::max(of.send_bytes, of.receive_bytes), receive_on_gpu, gpu, memory);
    std::byte* const at = receive->data();
    const bool whole_is_received =
        call.collective == Collective::kAllGather || call.collective == Collective::kGather;
    call.send = whole_is_received ? at + of.own : at;
    call.receive = of.receive_is_part ? at + of.own : at;
    Bytes bytes = receive->read();
    std::ranges::copy(of.send, bytes.begin() + (whole_is_received ? static_cast<std::ptrdiff_t>(of.own) : 0));
    receive->write(bytes);
  }
  /// What the call was to write, and what was between.
  Bytes received() const {
    Bytes all = receive->read();
    if (!plan->in_place || !plan->receive_is_part) return all;
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(plan->own);
    return {begin, begin + static_cast<std::ptrdiff_t>(plan->receive_bytes)};
  }
};

/// Random calls give the same bytes as on host memory, whichever ranks' buffers are where.
void compare(std::string_view clusters, bool one_host, unsigned seed, int calls, std::size_t largest) {
  const int ranks = static_cast<int>(clusters.size());
  expect_fine(run_ranks(
      clusters,
      [&](Communicator& communicator) {
        std::mt19937_64 common(seed), own(seed * 31 + static_cast<unsigned>(communicator.rank()));
        for (int i = 0; i < calls; ++i) {
          const Plan plan = draw(common, own, communicator.rank(), ranks, largest);
          Made on_host(plan, false, false, 0, MemoryOf::kNoContext);
          communicator.run(on_host.call);
          const bool send_on_gpu = own() % 4 > 0, receive_on_gpu = own() % 4 > 0;
          const MemoryOf memory = own() % 2 == 0 ? MemoryOf::kPrimaryContext : MemoryOf::kNoContext;
          Made made(plan, send_on_gpu, receive_on_gpu, communicator.rank() % 2, memory);
          if (common() % 2 == 0) {
            communicator.run(made.call);
          } else {
            communicator.wait(communicator.start(made.call));
          }
          ASSERT_TRUE(made.received() == on_host.received())
              << collective_name(plan.call.collective) << " #" << i << " of " << plan.call.count << " "
              << data_type_name(plan.call.type) << " on rank " << communicator.rank() << " of " << clusters
              << (plan.in_place ? " in place" : "") << (plan.call.uneven ? " uneven" : "");
        }
        cuda().check_thread();
      },
      [&](Options& options) {
        if (one_host) options.router.host.name = "host";
      }));
}

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
