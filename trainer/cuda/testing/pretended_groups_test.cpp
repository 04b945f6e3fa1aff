// The rules by which devices sum with each other, and that the pretended ones find what breaks them.
#include "trainer/cuda/testing/pretended_groups.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/randomized_test.h"
#include "trainer/cuda/testing/pretended_device.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer::cuda {
namespace {

constexpr std::size_t kCount = 16, kNumberBytes = kCount * sizeof(float);

/// A device of one rank with numbers of its own, and its end of a group.
struct RankDevice {
  RankDevice(const PretendedOptions& options, const GroupId& id, const GroupMember& member)
      : device(options),
        numbers(reinterpret_cast<float*>(device.allocate(kNumberBytes, "numbers"))),
        host(reinterpret_cast<float*>(device.allocate_host(kNumberBytes, "host"))),
        done(device.make_event()),
        group(device.join_group(id, member)) {
    for (std::size_t at = 0; at < kCount; ++at)
      host[at] = static_cast<float>(at) + 0.25F * static_cast<float>(member.rank);
  }
  void bring() {
    device.copy(Stream::kFromHost, numbers, host, kNumberBytes);
    device.record(Stream::kFromHost, done);
    device.wait(Stream::kReduce, done);
  }
  void sum(std::size_t count = kCount) { group->all_reduce(numbers, count); }
  std::vector<float> result() {
    device.copy(Stream::kReduce, host, numbers, kNumberBytes);
    device.record(Stream::kReduce, done);
    device.synchronize(done);
    return {host, host + kCount};
  }

  PretendedDevice device;
  float *numbers, *host;
  Event done;
  std::unique_ptr<DeviceGroup> group;
};

/// Runs `body` on every rank, each a thread with a device of its own.
void on_ranks(int ranks, unsigned seed, const std::function<void(int, RankDevice&)>& body) {
  const auto nccl = std::make_shared<PretendedNccl>();
  const GroupId id = nccl->make_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      PretendedOptions options;
      options.seed = seed + static_cast<unsigned>(rank);
      options.nccl = nccl;
      RankDevice own(options, id, {rank, ranks});
      body(rank, own);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(PretendedGroups, EveryRankGetsTheSumInTheOrderOfRanks) {
  for (unsigned round = 0; round < static_cast<unsigned>(test_rounds(5)); ++round) {
    on_ranks(3, test_seed(1 + round), [](int rank, RankDevice& own) {
      own.bring();
      own.sum();
      own.sum();
      const std::vector<float> result = own.result();
      for (std::size_t at = 0; at < kCount; ++at)
        EXPECT_EQ(result[at], 3 * (3 * static_cast<float>(at) + 0.75F)) << "rank " << rank << ", " << at;
    });
  }
}

TEST(PretendedGroups, SumsOfDifferentLengthsAreFound) {
  std::array<int, 2> refused{};
  on_ranks(2, test_seed(1), [&](int rank, RankDevice& own) {
    own.bring();
    try {
      own.sum(rank == 0 ? kCount : kCount / 2);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("sum 0 of rank"), std::string::npos) << error.what();
      ++refused[static_cast<std::size_t>(rank)];
    }
  });
  EXPECT_EQ(refused[0] + refused[1], 1) << "whoever comes second finds it";
}

TEST(PretendedGroups, NumbersThatNoEventOrdersBeforeTheSumAreFound) {
  on_ranks(1, test_seed(1), [](int, RankDevice& own) {
    own.device.copy(Stream::kFromHost, own.numbers, own.host, kNumberBytes);
    test::expect_refusal([&] { own.sum(); }, {"sum over devices", "\"reduce\"", "no event orders the two"},
                         Cause::kInternal);
  });
}

TEST(PretendedGroups, NumbersThatAreUsedBeforeTheSumIsDoneAreFound) {
  on_ranks(1, test_seed(1), [](int, RankDevice& own) {
    own.bring();
    own.device.wait(Stream::kCompute, own.done);  // for what brought them, not for the sum
    own.sum();
    test::expect_refusal([&] { own.device.clear(Stream::kCompute, own.numbers, kNumberBytes); },
                         {"clear", "sum over devices", "no event orders the two"}, Cause::kInternal);
  });
}

TEST(PretendedGroups, TwoThreadsThatUseOneGroupAreFound) {
  on_ranks(1, test_seed(1), [](int, RankDevice& own) {
    own.bring();
    own.sum();
    std::thread other([&] {
      test::expect_refusal([&] { own.sum(); }, {"rank 0", "two threads"}, Cause::kInternal);
    });
    other.join();
  });
}

TEST(PretendedGroups, ARankThatDoesNotComeIsNamed) {
  const auto nccl = std::make_shared<PretendedNccl>();
  PretendedOptions options;
  options.nccl = nccl;
  PretendedDevice device(options);
  test::expect_refusal(
      [&] {
        device.join_group(nccl->make_id(), {1, 3, std::chrono::milliseconds(5)});
      },
      {"rank 1 of 3", "have not come: 0 2"}, Cause::kTimeout);
}

TEST(PretendedGroups, ARankThatGivesUpIsFoundByTheOthersAndItsOwnStreamGoesOn) {
  on_ranks(2, test_seed(1), [](int rank, RankDevice& own) {
    own.bring();
    if (rank == 1) {
      own.sum();
      own.group->give_up("a test");
      static_cast<void>(own.result());
      return;
    }
    std::string found;
    while (found.empty()) try {
        own.group->check();
      } catch (const Error& error) {
        EXPECT_EQ(error.cause(), Cause::kRemote);
        found = error.what();
      }
    EXPECT_NE(found.find("rank 1 gave up: a test"), std::string::npos) << found;
  });
}

TEST(PretendedGroups, ADeviceWithoutTheLibrarySaysSo) {
  PretendedDevice device;
  test::expect_refusal([&] { device.group_library(); }, {"no NCCL"}, Cause::kUnsupported);
}

}  // namespace
}  // namespace tombolo::trainer::cuda
